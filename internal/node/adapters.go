package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// The parts do not know each other. The adapters in this file implement the interfaces of one part
// with another part.

// publishedKeys gives the API the public signing keys, and the keys that sign receipts and pulled
// events.
type publishedKeys struct{ ring *keys.SigningRing }

func (p publishedKeys) Signs() bool { return p.ring.Signs() }

func (p publishedKeys) Signers(nowMillis int64) ([]domain.Secret, error) {
	return p.ring.Signers(nowMillis)
}

func (p publishedKeys) EndpointSigners(id string, nowMillis int64) ([]domain.Secret, error) {
	return p.ring.EndpointSigners(id, nowMillis)
}

func (p publishedKeys) EndpointPublished(id string) (public []api.PublicKey, err error) {
	list, err := p.ring.EndpointPublished(id)
	for _, key := range list {
		public = append(public, api.PublicKey{ID: domain.SigningKeyID(key), Key: key})
	}
	return public, err
}

func (p publishedKeys) Published() []api.PublicKey {
	var public []api.PublicKey
	for _, k := range p.ring.Published() {
		public = append(public, api.PublicKey{ID: k.ID, Key: k.Public})
	}
	return public
}

// submitter submits the API's commands. It refuses them if there is too little disk space.
type submitter struct {
	client *commands.Client
	disk   *DiskGuard
}

func (s submitter) Submit(ctx context.Context, c domain.Command) (domain.Result, error) {
	if err := s.disk.Check(); err != nil {
		return domain.Result{}, fmt.Errorf("%w: %w", api.ErrDiskFull, err)
	}
	result, err := s.client.Submit(ctx, c)
	var unanswered commands.ErrNotConfirmed
	switch {
	case errors.As(err, &unanswered):
		return result, fmt.Errorf("%w: %w", api.ErrCommandUnanswered, err)
	case errors.Is(err, commands.ErrBusy):
		return result, fmt.Errorf("%w: %w", api.ErrWritesRefused, err)
	}
	return result, err
}

// maxUsesUnderWay bounds the appends of last uses in flight. Others are dropped, because the key's
// next minute produces another.
const maxUsesUnderWay = 64

type keyUses struct {
	producer *kafka.Producer
	logger   *slog.Logger
	places   chan struct{}
}

func newKeyUses(cluster kafka.Cluster, logger *slog.Logger) (*keyUses, error) {
	producer, err := cluster.NewProducer()
	if err != nil {
		return nil, err
	}
	return &keyUses{producer, logger, make(chan struct{}, maxUsesUnderWay)}, nil
}

func (u *keyUses) Used(keyID string, atMillis int64) { u.append(useOf(keyID, atMillis)) }

func useOf(id string, atMillis int64) kafka.Record {
	m := schemas.EncodeKeyUse(atMillis)
	return kafka.NewRecord(schemas.TopicKeyUses, id, m.Value, m.EachHeader)
}

// EndSession records that a console session was ended early. Every node that serves the console
// reads this topic, and a record is all that it needs.
func (u *keyUses) EndSession(ctx context.Context, id string, untilMillis int64) error {
	return u.producer.Append(ctx, useOf(id, untilMillis))
}

func (u *keyUses) Forget(keyID string) {
	u.append(kafka.Record{Topic: schemas.TopicKeyUses, Key: []byte(keyID)})
}

func (u *keyUses) append(rec kafka.Record) {
	select {
	case u.places <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-u.places }()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := u.producer.Append(ctx, rec); err != nil {
			u.logger.Debug("storing the last use of a key failed", "error", err)
		}
	}()
}

// close waits for appends in flight.
func (u *keyUses) close() {
	for range maxUsesUnderWay {
		u.places <- struct{}{}
	}
	u.producer.Close()
}

// deriver returns a function that derives secrets from labels. All nodes share the master key's
// text, so they derive the same secrets.
func deriver(key []byte) func(label string) [32]byte {
	extracted := hmac.New(sha256.New, []byte("lumenhook: derived secrets"))
	extracted.Write(key)
	secret := extracted.Sum(nil)
	return func(label string) (derived [32]byte) {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(label))
		copy(derived[:], mac.Sum(nil))
		return derived
	}
}

type watches struct{ *directory.Directory }

func (w watches) ByWallet(wallet string) (all []domain.Watch, err error) {
	err = w.EachMatchingWatch(wallet, func(one domain.Watch) error {
		all = append(all, one)
		return nil
	})
	return all, err
}

// urlPolicy checks URLs by the rules of the client that posts to them.
type urlPolicy struct{ client *egress.Client }

func (p urlPolicy) Check(
	ctx context.Context, raw string,
) (normalised string, warnings []string, faults []api.URLFault) {
	u, err := p.client.CheckURL(asciiHost(raw))
	if err == nil {
		normalised = u.String()
		err = p.client.CheckHost(ctx, u.Hostname())
	}
	if err == nil {
		return normalised, nil, nil
	}
	for _, fault := range egress.Faults(err) {
		if fault.Code == egress.FaultDoesNotResolve {
			return normalised, []string{string(fault.Code)}, nil
		}
		faults = append(faults, api.URLFault{Code: string(fault.Code), Detail: fault.Detail})
	}
	if len(faults) == 0 {
		faults = []api.URLFault{{
			Code:   string(egress.FaultInvalid),
			Detail: "the URL could not be checked; try again",
		}}
	}
	return "", nil, faults
}

// asciiHost converts an international host name to its xn-- form for DNS (IDNA 2008 with the
// mapping of UTS 46). It returns other names unchanged, so that the check rejects invalid ones.
func asciiHost(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return raw
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, port := rest[:end], ""
	if colon := strings.LastIndex(host, ":"); colon >= 0 {
		host, port = host[:colon], host[colon:]
	}
	if strings.ContainsAny(host, "@[]:") ||
		!strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII }) {
		return raw
	}
	ascii, err := idna.Lookup.ToASCII(host)
	if err != nil {
		return raw
	}
	return scheme + "://" + ascii + port + rest[end:]
}
