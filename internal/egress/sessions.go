package egress

import (
	"crypto/tls"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	maxTLSSessions = 4096
	// A session holds its receiver's certificates and ticket, whose length the receiver
	// chooses; longer ones than these are not stored.
	maxSessionChainBytes  = 16 << 10
	maxSessionTicketBytes = 4 << 10
)

// sessions caches the TLS sessions that make a reconnect cheap, one for each host and port.
// crypto/tls itself identifies a session by its server name only, so that receivers on
// several ports of one host would overwrite each other's.
type sessions struct {
	byAddr *lru.Cache[string, *tls.ClientSessionState]
}

func newSessions() (sessions, error) {
	cache, err := lru.New[string, *tls.ClientSessionState](maxTLSSessions)
	return sessions{cache}, err
}

// session is the cache of one address's session, for one handshake.
type session struct {
	sessions
	addr       string
	chainBytes int
}

// configure makes a handshake resume the session of addr and store its own.
func (s sessions) configure(cfg *tls.Config, addr string) {
	place := &session{sessions: s, addr: addr}
	cfg.ClientSessionCache = place
	cfg.VerifyConnection = place.weigh
}

// weigh records the size of the receiver's chain. It does not verify it: that was done
// before.
func (s *session) weigh(state tls.ConnectionState) error {
	s.chainBytes = 0
	for _, cert := range state.PeerCertificates {
		s.chainBytes += len(cert.Raw)
	}
	return nil
}

// Get is called by crypto/tls with a key of its own, which is not needed.
func (s *session) Get(string) (*tls.ClientSessionState, bool) { return s.byAddr.Get(s.addr) }

// Put stores a session unless it is too large; nil removes it.
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
