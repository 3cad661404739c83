package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/segmentio/asm/base64"
)

type ledgers struct {
	Ledgers []struct {
		Sequence uint32 `json:"sequence"`
		Hash     string `json:"hash"`
		XDR      text   `json:"metadataXdr"`
	} `json:"ledgers"`
	Latest uint32 `json:"latestLedger"`
}

// text holds bytes that are base64 in JSON.
type text []byte

const pieceSizeBytes = 64 << 10

// read reads the response. Its base64 is decoded while it arrives, so that memory only contains the
// decoded ledgers, and the JSON decoder doesn't have to read the base64.
func (l *ledgers) read(body io.Reader) error {
	short, texts, err := takeOut(bufio.NewReaderSize(body, pieceSizeBytes))
	if err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	return l.unmarshal(short, jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(
		func(d *jsontext.Decoder, t *text) error {
			value, err := d.ReadValue()
			if err != nil {
				return err
			}
			taken, ok := texts[d.InputOffset()]
			if !ok {
				return jsonv2.Unmarshal(value, (*[]byte)(t))
			}
			*t = taken
			return nil
		})))
}

func (l *ledgers) unmarshal(raw []byte, options ...jsonv2.Options) error {
	var a struct {
		Result *ledgers     `json:"result"`
		Error  *serverError `json:"error"`
	}
	switch err := jsonv2.Unmarshal(raw, &a, options...); {
	case err != nil:
		return fmt.Errorf("its response has an unexpected form: %w", err)
	case a.Error != nil:
		return a.Error
	case a.Result == nil:
		return errors.New("its response has no result")
	}
	*l = *a.Result
	return nil
}

// takeOut replaces the ledgers in a response with empty strings. It returns their content by the
// offset at which the empty strings end. Because JSON strings contain no unescaped quotes, a match
// can only be the name of a member, or the end of such a name, and is followed by a string.
func takeOut(in *bufio.Reader) (short []byte, texts map[int64]text, err error) {
	texts = map[int64]text{}
	for {
		piece, err := in.ReadSlice('"')
		short = append(short, piece...)
		switch {
		case len(short) > answerSizeBytesMax:
			return nil, nil, fmt.Errorf("%w: more than %d bytes besides its ledgers", errTooLarge,
				answerSizeBytesMax)
		case errors.Is(err, io.EOF):
			return short, texts, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, err
		}
		if err != nil || !endsBeforeText(short) {
			continue
		}
		taken, err := readText(in)
		if err != nil {
			return nil, nil, err
		}
		short = append(short, '"')
		texts[int64(len(short))] = taken
	}
}

// endsBeforeText reports whether the quote at the end of short starts the text of a ledger.
func endsBeforeText(short []byte) bool {
	const space = " \t\r\n"
	named, colon := bytes.CutSuffix(bytes.TrimRight(short[:len(short)-1], space), []byte(":"))
	return colon && bytes.HasSuffix(bytes.TrimRight(named, space), []byte(`"metadataXdr"`))
}

var scratches sync.Pool

// readText decodes a base64 string up to its closing quote. JSON may escape only the slash.
func readText(in *bufio.Reader) (text, error) {
	scratch, ok := scratches.Get().(*bytes.Buffer)
	if !ok {
		scratch = new(bytes.Buffer)
	}
	defer func() {
		switch size := scratch.Cap(); {
		case size <= scratchKeptSizeBytesMax:
			scratches.Put(scratch)
		case size >= scratchFreedSizeBytesMin: // rare; otherwise, the heap would stay this large
			*scratch = bytes.Buffer{}
			debug.FreeOSMemory()
		}
	}()
	scratch.Reset()
	var encoded []byte // not decoded yet
	for {
		piece, err := in.ReadSlice('"')
		more := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil && !more:
			return nil, err
		case !more:
			piece = piece[:len(piece)-1]
		}
		encoded = append(encoded, piece...)
		if bytes.IndexByte(encoded, '\\') >= 0 {
			encoded = bytes.ReplaceAll(encoded, []byte(`\/`), []byte("/"))
		}
		whole := len(encoded)
		if more { // the last group may be incomplete or end within an escape
			whole = (whole - 1) &^ 3
		}
		padded, err := decode(scratch, encoded[:whole])
		switch {
		case err != nil || padded && more:
			return nil, errBase64
		case !more:
			return append(text{}, scratch.Bytes()...), nil
		}
		encoded = append(encoded[:0], encoded[whole:]...)
	}
}

var errBase64 = errors.New("a ledger is not valid base64")

// decode appends the decoded base64, which must not contain line breaks.
func decode(to *bytes.Buffer, encoded []byte) (padded bool, err error) {
	to.Grow(base64.StdEncoding.DecodedLen(len(encoded)))
	raw := to.AvailableBuffer()[:base64.StdEncoding.DecodedLen(len(encoded))]
	n, err := base64.StdEncoding.Decode(raw, encoded)
	padding := len(encoded) - len(bytes.TrimRight(encoded, "="))
	if err != nil || len(encoded)%4 != 0 || n != len(raw)-padding {
		return false, errBase64
	}
	to.Write(raw[:n])
	return padding > 0, nil
}
