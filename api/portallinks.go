package api

import (
	"context"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// Limits of how long a portal link's credential lasts.
const (
	minPortalSec     = 60
	defaultPortalSec = 3600
	maxPortalSec     = 24 * 3600
)

type portalLink struct {
	permissions []domain.Permission
	endpointID  string // empty: the whole account
	seconds     int64
}

func decodePortalLink(body []byte) (link portalLink, faults *problem.Faults) {
	link.seconds = defaultPortalSec
	faults = decode.Object(body,
		decode.Into("permissions", &link.permissions, readPermissions),
		decode.Into("endpointId", &link.endpointID, func(v decode.Value) string {
			id, given := v.Text(maxFilterCharacters)
			if given && !v.Faulty() && !domain.IsID(domain.EndpointPrefix, id) {
				v.Fault(problem.FaultInvalidValue, "must be an id: ep_ and 26 characters")
			}
			return id
		}),
		decode.Into("expiresInSeconds", &link.seconds, func(v decode.Value) int64 {
			if seconds, given := v.Integer(minPortalSec, maxPortalSec); given {
				return int64(seconds)
			}
			return defaultPortalSec
		}))
	return link, faults
}

// createPortalLink creates a link without storing anything. The link expires with its key and
// grants no more than the key, so any key with the read permission may create one.
func (a *API) createPortalLink(ctx context.Context, r *request) (reply, error) {
	wanted, faults := decodePortalLink(r.body)
	if err := a.judgeLinkEndpoint(ctx, r, wanted.endpointID, faults); err != nil {
		return reply{}, err
	}
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	if err := checkGrant(r, wanted.permissions, "a portal link"); err != nil {
		return reply{}, err
	}
	now := a.Now()
	ends := now.UnixMilli() + wanted.seconds*1000
	if r.caller.expiresAtMillis != 0 {
		ends = min(ends, r.caller.expiresAtMillis)
	}
	text, opens, err := a.PortalLinks.Link(domain.PortalGrant{
		AccountID:   r.caller.accountID,
		EndpointID:  wanted.endpointID,
		KeyID:       r.caller.keyID,
		Permissions: wanted.permissions,
		EndsMillis:  ends,
	}, now.UnixMilli())
	if err != nil {
		return reply{}, err
	}
	return reply{view: client.PortalLink{
		Path:        domain.PortalPath + "/link?to=" + text,
		Permissions: texts(wanted.permissions),
		EndpointID:  unlessZero(wanted.endpointID),
		OpensUntil:  at(opens),
		ExpiresAt:   at(ends),
	}}, nil
}
