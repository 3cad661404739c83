package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lumenhook/lumenhook/domain"
)

type webhook struct {
	Body      string `json:"body" jsonschema:"the raw body, exactly as it was received"`
	Timestamp string `json:"timestamp" jsonschema:"the header Webhook-Timestamp"`
	Signature string `json:"signature" jsonschema:"the header Webhook-Signature, its whole value"`
}

// checked is whether a webhook's signature is right.
type checked struct {
	Valid bool   `json:"valid"`
	Why   string `json:"why"`
}

func (s *server) addVerify(to *mcp.Server) {
	add(to, "verify_webhook", "Checks a webhook's signature as its receiver must, with the secret of the file "+
		"that whoever started this server has named: no secret is needed here, and none should be given. "+
		"The body is what is checked, and not read.", s.verify)
}

func (s *server) verify(_ context.Context, in webhook) (*answer, error) {
	if s.Secrets == nil {
		return nil, errors.New("this server knows no signing secret: whoever started it can do so with " +
			"`lumenhook mcp --secret-file FILE`, with the endpoint's secret in the file")
	}
	secrets, err := s.Secrets()
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	result := checked{Valid: true, Why: "the signature is right, and its timestamp is of now"}
	err = domain.Verify(in.Signature, in.Timestamp, []byte(in.Body), secrets, time.Now().Unix())
	switch {
	case errors.Is(err, domain.ErrTimestampTooFar):
		result = checked{Why: err.Error() + ": a receiver refuses it, or it is an old webhook"}
	case err != nil:
		result = checked{Why: err.Error() + ": the secret, the timestamp or the body is another than " +
			"what was signed"}
	}
	return &answer{Result: result}, nil
}
