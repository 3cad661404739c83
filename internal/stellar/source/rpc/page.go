package rpc

import (
	"bytes"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/asm/base64"
)

// ledgers is an answer to getLedgers.
type ledgers struct {
	Ledgers []struct {
		Sequence uint32 `json:"sequence"`
		Hash     string `json:"hash"`
		XDR      text   `json:"metadataXdr"`
	} `json:"ledgers"`
}

// text is bytes that JSON gives as base64.
type text []byte

// parse reads the whole answer. Nearly all of it is base64: it is taken out first, so that what
// reads JSON need not look at each byte of it. Where that does not go, as in an answer that
// escapes a slash, JSON is read as it is; and so it is where something that was taken out was no
// ledger's, which nobody has looked at then.
func (l *ledgers) parse(raw []byte) error {
	short, texts := takeOut(raw)
	left := len(texts)
	err := l.unmarshal(short, jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(
		func(d *jsontext.Decoder, t *text) (err error) {
			value, err := d.ReadValue()
			if err != nil {
				return err
			}
			encoded, ok := texts[d.InputOffset()]
			if !ok {
				return jsonv2.Unmarshal(value, (*[]byte)(t))
			}
			left--
			*t, err = decode(encoded)
			return err
		})))
	if err == nil && left == 0 {
		return nil
	}
	*l = ledgers{}
	return l.unmarshal(raw)
}

func (l *ledgers) unmarshal(raw []byte, options ...jsonv2.Options) error {
	var a struct {
		Result *ledgers     `json:"result"`
		Error  *serverError `json:"error"`
	}
	switch err := jsonv2.Unmarshal(raw, &a, options...); {
	case err != nil:
		return fmt.Errorf("its answer has an unexpected form: %w", err)
	case a.Error != nil:
		return a.Error
	case a.Result == nil:
		return errors.New("its answer has no result")
	}
	*l = *a.Result
	return nil
}

var beforeText = []byte(`"metadataXdr":"`)

// takeOut leaves empty strings where an answer has ledgers, and gives what was in them by where the
// empty ones end. Within a string of JSON no quote stands alone, so what is found is a member's
// name, or ends one, and a string follows.
func takeOut(raw []byte) (short []byte, texts map[int64][]byte) {
	texts = map[int64][]byte{}
	for {
		at := bytes.Index(raw, beforeText)
		if at < 0 {
			return append(short, raw...), texts
		}
		at += len(beforeText)
		size := bytes.IndexByte(raw[at:], '"')
		if size < 0 {
			return append(short, raw...), texts
		}
		short = append(append(short, raw[:at]...), '"')
		texts[int64(len(short))] = raw[at : at+size]
		raw = raw[at+size+1:]
	}
}

var errBase64 = errors.New("a ledger is no base64")

// decode decodes base64 without line breaks.
func decode(encoded []byte) ([]byte, error) {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(raw, encoded)
	padding := len(encoded) - len(bytes.TrimRight(encoded, "="))
	if err != nil || len(encoded)%4 != 0 || n != len(raw)-padding {
		return nil, errBase64
	}
	return raw[:n], nil
}
