package egress

import (
	"crypto/tls"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	maxTLSSessions = 4096
	// Limits of a stored session, which contains the receiver's certificates and ticket.
	maxSessionChainBytes  = 16 << 10
	maxSessionTicketBytes = 4 << 10
)

// sessions caches TLS sessions by host and port. crypto/tls uses only the server name as the key,
// so receivers on different ports of a host would overwrite each other's sessions.
type sessions struct {
	byAddr *lru.Cache[string, *tls.ClientSessionState]
}

func newSessions() (sessions, error) {
	cache, err := lru.New[string, *tls.ClientSessionState](maxTLSSessions)
	return sessions{cache}, err
}

type session struct {
	sessions
	addr       string
	chainBytes int
}

func (s sessions) configure(cfg *tls.Config, addr string) {
	place := &session{sessions: s, addr: addr}
	cfg.ClientSessionCache = place
	cfg.VerifyConnection = place.weigh
}

// weigh records the size of the verified certificate chain.
func (s *session) weigh(state tls.ConnectionState) error {
	s.chainBytes = 0
	for _, cert := range state.PeerCertificates {
		s.chainBytes += len(cert.Raw)
	}
	return nil
}

// Get implements [tls.ClientSessionCache]. It uses the address instead of the key.
func (s *session) Get(string) (*tls.ClientSessionState, bool) { return s.byAddr.Get(s.addr) }

// Put stores a session unless it is too large. A nil session is removed.
func (s *session) Put(_ string, state *tls.ClientSessionState) {
	if state == nil {
		s.byAddr.Remove(s.addr)
		return
	}
	ticket, _, err := state.ResumptionState()
	if err == nil && len(ticket) <= maxSessionTicketBytes && s.chainBytes <= maxSessionChainBytes {
		s.byAddr.Add(s.addr, state)
	}
}
