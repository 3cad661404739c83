package egress

import (
	"crypto/tls"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	maxTLSSessions = 4096
	// A session holds its receiver's certificates and ticket, which are as long
	// as the receiver likes; longer ones than these are not kept.
	maxSessionChainBytes  = 16 << 10
	maxSessionTicketBytes = 4 << 10
)

// sessions keeps the TLS sessions that make a reconnect cheap, one for each host
// and port. crypto/tls itself names a session by its server name alone, so that
// receivers on several ports of one host would take each other's place.
type sessions struct {
	byAddr *lru.Cache[string, *tls.ClientSessionState]
}

func newSessions() (sessions, error) {
	cache, err := lru.New[string, *tls.ClientSessionState](maxTLSSessions)
	return sessions{cache}, err
}

// session is the place of one address's session, for one handshake.
type session struct {
	sessions
	addr       string
	chainBytes int
}

// configure makes a handshake resume the session of addr and leave its own.
func (s sessions) configure(cfg *tls.Config, addr string) {
	place := &session{sessions: s, addr: addr}
	cfg.ClientSessionCache = place
	cfg.VerifyConnection = place.weigh
}

// weigh notes how long the receiver's chain is. It passes no judgement:
// verification was done before.
func (s *session) weigh(state tls.ConnectionState) error {
	s.chainBytes = 0
	for _, cert := range state.PeerCertificates {
		s.chainBytes += len(cert.Raw)
	}
	return nil
}

// Get is asked by crypto/tls with a key of its own, which is not needed.
func (s *session) Get(string) (*tls.ClientSessionState, bool) { return s.byAddr.Get(s.addr) }

// Put keeps a session that is not too long; nil forgets it.
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
