package apicli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

const (
	keysTimeout  = 15 * time.Second
	redirectsMax = 10
	keysMaxBytes = 1 << 20
)

// ReadReceiptKeys reads published keys from a file or an HTTP URL.
func ReadReceiptKeys(ctx context.Context, from string) (receipt.Keys, error) {
	read := func() ([]byte, error) { return cli.ReadInput(nil, from, keysMaxBytes) }
	if strings.HasPrefix(from, "https://") || strings.HasPrefix(from, "http://") {
		read = func() ([]byte, error) { return fetch(ctx, from) }
	}
	text, err := read()
	if err != nil {
		return receipt.Keys{}, err
	}
	return receipt.ParseKeys(text)
}

func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{CheckRedirect: keepHTTPS}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected response %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, keysMaxBytes+1))
	if err == nil && len(text) > keysMaxBytes {
		err = fmt.Errorf("the response is larger than %d bytes", keysMaxBytes)
	}
	return text, err
}

// keepHTTPS refuses redirects from HTTPS to HTTP, where anyone could replace the keys.
func keepHTTPS(next *http.Request, via []*http.Request) error {
	if len(via) >= redirectsMax || via[0].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return fmt.Errorf("redirects to %s", next.URL.Redacted())
	}
	return nil
}

// SaveReceipt writes a receipt to a new file. It never overwrites a file, which may be evidence.
func SaveReceipt(path string, r client.Receipt) error {
	text, err := receiptText(r)
	if err != nil {
		return err
	}
	const create = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := os.OpenFile(path, create, 0o644) // #nosec G302 G304 -- nothing of it is secret
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// ShowReceipt prints a receipt as SaveReceipt writes it.
func ShowReceipt(w io.Writer, r client.Receipt) {
	if text, err := receiptText(r); err == nil {
		_, _ = w.Write(text)
	}
}

func receiptText(r client.Receipt) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return text.Bytes(), err
}

// SentBody checks that each attempt of a receipt sent exactly this body.
func SentBody(p receipt.Proved, body []byte) error {
	sum := sha256.Sum256(body)
	for _, log := range p.Logs {
		for _, a := range log.Attempts {
			if a.BodySHA256 != hex.EncodeToString(sum[:]) {
				return fmt.Errorf("attempt %d was sent with another body: its SHA-256 is %s, but this "+
					"body's is %x", a.Number, a.BodySHA256, sum)
			}
		}
	}
	return nil
}

// ReceiptResult is the result of checking a receipt.
type ReceiptResult struct {
	Verified        bool   `json:"verified"`
	Reason          string `json:"reason,omitempty"` // set if not verified
	*receipt.Proved        // nil if not verified
	// Further checks of a valid receipt.
	SentBody   string      `json:"sentBody,omitempty"` // file that contains the body of every attempt
	CommonLogs []CommonLog `json:"goesOn,omitempty"`   // logs that extend those of an earlier receipt
}

// CommonLog is a log that extends its state in an earlier receipt.
type CommonLog struct {
	Log         receipt.Name `json:"log"`
	EarlierSize int64        `json:"earlierSize"`
}

// CommonLogs returns the logs that are in both receipts.
func CommonLogs(now, earlier receipt.Proved) (logs []CommonLog) {
	for _, old := range earlier.Logs {
		for _, log := range now.Logs {
			if log.Log == old.Log {
				logs = append(logs, CommonLog{Log: log.Log, EarlierSize: old.Size})
			}
		}
	}
	return logs
}

// ShowProved prints what a valid receipt proves.
func ShowProved(w io.Writer, p ReceiptResult) {
	_, _ = fmt.Fprintf(w, "the receipt of %s is valid\n", p.EventID)
	if p.SentBody != "" {
		_, _ = fmt.Fprintf(w, "each attempt was sent with the body in %s, byte for byte\n", p.SentBody)
	}
	for _, log := range p.CommonLogs {
		_, _ = fmt.Fprintf(w, "the log of %s continues from its first %d attempts, which the earlier "+
			"receipt\nproved: none of them was changed or removed, and none was inserted\n",
			log.Log.EndpointID, log.EarlierSize)
	}
	for _, log := range p.Logs {
		_, _ = fmt.Fprintf(w,
			"\nlog of %s, account %s\n  %d attempts when the key %s signed it, root %s\n",
			log.Log.EndpointID, log.Log.AccountID, log.Size, strings.Join(log.SignedBy, " and "), log.Root)
		for _, a := range log.Attempts {
			result := domain.AttemptResult{StatusCode: a.StatusCode, Error: domain.AttemptError(a.Error)}
			_, _ = fmt.Fprintf(w, "  attempt %d at %s: %s, after %d ms; leaf %d\n", a.Number,
				domain.FormatMillis(a.SentAtMs), result.Answer(), a.DurationMs, a.Leaf)
			_, _ = fmt.Fprintf(w, "    body's SHA-256       %s\n    signature's SHA-256  %s\n", a.BodySHA256,
				a.SignatureSHA256)
		}
	}
	_, _ = fmt.Fprint(w, "\nThe service signed these statements and cannot take them back. A "+
		"receiver's response is what\nthe service received.\n")
}
