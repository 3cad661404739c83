package apicli

import (
	"io"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

const keepIt = "\nThe key is shown this once: keep it.\n"

// MadeKey is a key that was created without the API.
type MadeKey struct {
	AccountID string `json:"accountId,omitempty"` // the API's key says it, where an API made this one
	KeyID     string `json:"keyId"`
	Key       string `json:"key"`
}

// Show prints it, one field per line.
func (m MadeKey) Show(w io.Writer) {
	if m.AccountID != "" {
		cli.Row(w, "account", m.AccountID)
	}
	cli.Row(w, "key id", m.KeyID)
	cli.Row(w, "key", m.Key)
	_, _ = io.WriteString(w, keepIt)
}

// ShowRolledKey prints the key that replaced another.
func ShowRolledKey(w io.Writer, k client.Key) {
	cli.Row(w, "key id", k.ID)
	cli.Row(w, "key", k.Key)
	_, _ = io.WriteString(w, keepIt)
}

// ShowKeys prints a list of keys.
func ShowKeys(w io.Writer, l client.List[client.Key]) {
	cli.Row(w, "ID", "NAME", "PERMISSIONS", "FROM", "LAST USED", "EXPIRES", "ROLLED TO")
	for _, k := range l.Data {
		cli.Row(w, k.ID, k.Name, k.Permissions, k.AllowedCIDRs, k.LastUsedAt, k.ExpiresAt, k.RolledTo)
	}
	cli.More(w, l.NextCursor)
}
