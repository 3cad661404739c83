package forward

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/receiver"
)

// A line must preserve every byte that was signed, whatever the body contains.
func TestALineKeepsTheBody(t *testing.T) {
	for _, body := range []string{`{"a":"<&>\u2028 é"}`, "two\nlines\x00\x1b[2J", "\xff\xfe", ""} {
		var line bytes.Buffer
		w := receiver.Webhook{ID: "evt_1", Timestamp: "1", Signature: "v1=00", Body: []byte(body)}
		if err := writeReceived(&line, w); err != nil {
			t.Fatal(err)
		}
		got, err := ReadReceived(line.Bytes())
		if err != nil || string(got.RawBody()) != body || got.Timestamp != "1" ||
			got.Signature != "v1=00" {
			t.Errorf("%q came back as %q, %+v, %v", body, got.RawBody(), got, err)
		}
	}
	for _, text := range []string{
		"", "listening at https://127.0.0.1:8443/webhooks\n", "{}\n{}\n", "{}",
		`{"id":"evt_1","type":"payment.received"}`,
	} {
		if _, err := ReadReceived([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), "tail -n 1") {
			t.Errorf("%q was taken for a webhook: %v", text, err)
		}
	}
}
