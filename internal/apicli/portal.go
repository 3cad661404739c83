package apicli

import (
	"io"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// PortalLink is a link with its whole address.
type PortalLink struct {
	URL string `json:"url"`
	client.PortalLink
}

// Show prints it, one field per line.
func (l PortalLink) Show(w io.Writer) {
	cli.Row(w, "url", l.URL)
	cli.Row(w, "permissions", l.Permissions)
	if l.EndpointID != nil {
		cli.Row(w, "endpoint", *l.EndpointID)
	}
	cli.Row(w, "opens until", l.OpensUntil)
	cli.Row(w, "ends", l.ExpiresAt)
}
