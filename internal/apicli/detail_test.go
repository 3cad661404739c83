package apicli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

func TestWhyAnAttemptFailedIsShown(t *testing.T) {
	const detail = "TLS handshake: x509: certificate has expired"
	code, why := "TLS", detail+"\x1b"
	attempt := client.Attempt{Number: 1, Run: 1, Error: &code, ErrorDetail: &why}
	result := client.TestResult{Attempt: client.TestAttempt{Error: &code, ErrorDetail: &why}}
	var event, test bytes.Buffer
	ShowEvent(&event, client.Event{Attempts: []client.Attempt{attempt}})
	ShowTest(&test, result)
	for command, shown := range map[string]string{
		"events get":              event.String(),
		"endpoints test":          test.String(),
		"endpoints test, its end": CheckTest(result).Error(),
		"events tail":             TailLine{Kind: "attempt", Attempt: &attempt}.text(),
	} {
		if !strings.Contains(shown, detail) {
			t.Errorf("%s shows %q, without %q", command, shown, detail)
		}
	}
}
