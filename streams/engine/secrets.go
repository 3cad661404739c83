package engine

import (
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

type secrets struct {
	unseal func(sealed []byte, boundTo string) (domain.Secret, error)
	keys   func(endpointID string, nowMillis int64) ([]domain.Secret, error) // may be nil
	opened *lru.Cache[string, domain.Secret]
}

const cachedSecrets = 4096

func newSecrets(
	unseal func(sealed []byte, boundTo string) (domain.Secret, error),
	keys func(name string, nowMillis int64) ([]domain.Secret, error),
) *secrets {
	return &secrets{unseal: unseal, keys: keys, opened: newCache[domain.Secret](cachedSecrets)}
}

// signing returns the endpoint's Ed25519 keys that sign now, newest first. Having none is an error:
// an endpoint that requires this signature gets nothing without it.
func (s *secrets) signing(e domain.Endpoint, nowMillis int64) ([]domain.Secret, error) {
	var keys []domain.Secret
	err := errors.New("this engine has no active signing key: create one with " +
		"`lumenhook secrets signing create`, or copy the file of the other engines")
	for _, name := range e.SigningKeyNames(nowMillis) {
		if s.keys == nil {
			break
		}
		given, keysErr := s.keys(name, nowMillis)
		if keysErr != nil || len(given) > 0 {
			keys, err = append(keys, given...), keysErr
		}
		if keysErr != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("engine: signing with Ed25519 for endpoint %s: %w", e.ID, err)
	}
	return keys, nil
}

// of returns the secrets that sign for an endpoint now, newest first, and its custom headers.
func (s *secrets) of(
	e domain.Endpoint, nowMillis int64,
) (sign []domain.Secret, headers []domain.SentHeader, err error) {
	for _, valid := range e.ValidSecrets(nowMillis) {
		plain, openErr := s.open(valid.Sealed, e.ID)
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("engine: opening the secret of endpoint %s (is this the "+
				"master key it was sealed with?): %w", e.ID, openErr))
		}
		sign = append(sign, plain)
	}
	for _, h := range e.Headers {
		value, openErr := s.open(h.Sealed, h.SealedFor(e.ID))
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("engine: opening the header %s of endpoint %s (is this the "+
				"master key it was sealed with?): %w", h.Name, e.ID, openErr))
		}
		headers = append(headers, domain.SentHeader{Name: h.Name, Value: value})
	}
	return sign, headers, err
}

// open opens a sealed value. The cache key includes the binding, so that a seal copied from another
// endpoint does not open.
func (s *secrets) open(sealed []byte, boundTo string) (domain.Secret, error) {
	value := boundTo + "\x00" + string(sealed)
	if plain, ok := s.opened.Get(value); ok {
		return plain, nil
	}
	plain, err := s.unseal(sealed, boundTo)
	if err == nil {
		s.opened.Add(value, plain)
	}
	return plain, err
}
