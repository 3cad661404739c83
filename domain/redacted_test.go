package domain_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func TestASecretDoesNotPrint(t *testing.T) {
	const plain = "whsec_plain"
	secret := domain.Secret(plain)
	type holder struct {
		Secret domain.Secret
		List   []domain.Secret
		Map    map[string]domain.Secret
	}
	h := holder{secret, []domain.Secret{secret}, map[string]domain.Secret{"a": secret}}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		for _, value := range []any{secret, &secret, h, &h, fmt.Errorf("wrapped: %v", secret)} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{
		slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil),
	} {
		slog.New(handler).Info("text", "secret", secret, "holder", h, "list", h.List)
	}
	if err := json.NewEncoder(&out).Encode(h); err != nil {
		t.Fatal(err)
	}
	printed := out.String()
	if strings.Contains(printed, plain) ||
		strings.Contains(strings.ToLower(printed), fmt.Sprintf("%x", plain)) {
		t.Errorf("it printed:\n%s", printed)
	}
	if !strings.Contains(printed, `"Secret":"[redacted]"`) || string(secret) != plain {
		t.Errorf("it did not say that it is redacted:\n%s", printed)
	}
}
