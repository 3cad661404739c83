package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

func (a *API) viewKey(k domain.Key) (client.Key, error) {
	used, err := a.Directory.KeyUsedAt(k.ID)
	if err != nil {
		return client.Key{}, fmt.Errorf("looking up the last use of a key: %w", err)
	}
	return viewUsedKey(k, used), nil
}

func (a *API) getKey(_ context.Context, r *request) (reply, error) {
	view, err := a.viewKey(r.key)
	return reply{view: view}, err
}

// listKeys lists the keys in the account's row, at most domain.MaxKeys.
func (a *API) listKeys(_ context.Context, r *request) (reply, error) {
	q := newListQuery(r)
	after, limit, err := a.page(r, q)
	if err != nil {
		return reply{}, err
	}
	account, _, err := a.Directory.Account(r.caller.accountID)
	if err != nil {
		return reply{}, fmt.Errorf("looking up an account: %w", err)
	}
	keys := slices.DeleteFunc(slices.Clone(account.Keys), func(k domain.Key) bool {
		return k.Expired(a.Now().UnixMilli()) ||
			after != nil && newestFirst(*after, positionOf(k)) >= 0
	})
	slices.SortFunc(keys, func(a, b domain.Key) int {
		return newestFirst(positionOf(a), positionOf(b))
	})
	var next *readmodel.Position
	if len(keys) > limit {
		keys = keys[:limit]
		next = pointer(positionOf(keys[limit-1]))
	}
	return list(a, r, q, keys, next, positionOf, a.viewKey)
}

func positionOf(k domain.Key) readmodel.Position {
	return readmodel.Position{CreatedAtMillis: k.CreatedAtMillis, ID: k.ID}
}

func newestFirst(a, b readmodel.Position) int {
	return cmp.Or(cmp.Compare(b.CreatedAtMillis, a.CreatedAtMillis), cmp.Compare(b.ID, a.ID))
}

func (a *API) createKey(ctx context.Context, r *request) (reply, error) {
	key, faults := decodeNewKey(r.body, a.earliestEnd(r))
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	return a.makeKey(ctx, r, key, func(k domain.Key) domain.CommandBody {
		return domain.CreateKey{AccountID: r.caller.accountID, Key: k}
	})
}

// earliestEnd returns the time after which a new key must expire. This is now, unless this node
// knows that the request already created a key.
func (a *API) earliestEnd(r *request) (millis int64) {
	repeated := a.repeatsCreation(r, func() (bool, error) {
		account, _, err := a.Directory.Account(r.caller.accountID)
		_, made := account.Key(domain.DeriveID(domain.KeyPrefix, r.commandID))
		return made, err
	})
	if repeated {
		return -1
	}
	return a.Now().UnixMilli()
}

func checkGrant(r *request, permissions []domain.Permission, to string) error {
	for _, p := range permissions {
		if !slices.Contains(r.caller.permissions, p) {
			return problem.New(problem.CodeMissingPermission,
				fmt.Sprintf("The API key lacks the permission %q, and so it cannot make %s that has it.",
					p, to))
		}
	}
	return nil
}

// makeKey generates a key, submits the command that stores its hash, and returns the key.
func (a *API) makeKey(
	ctx context.Context, r *request, key domain.Key, body func(domain.Key) domain.CommandBody,
) (reply, error) {
	text, err := a.newKeyText(r)
	if err != nil {
		return reply{}, err
	}
	key.ID, key.Hash = domain.DeriveID(domain.KeyPrefix, r.commandID), domain.APIKeyHash(text)
	result, err := a.submit(ctx, r, body(key))
	made, err := partOf(result, err, result.Answer.Key)
	if err != nil {
		return reply{}, err
	}
	if err := checkGrant(r, made.Permissions, "a key"); err != nil {
		// A retry of a roll by another key: the rolled key is gone, so only the answer contains its
		// permissions.
		return reply{}, err
	}
	a.awaitAnswer(ctx, r, result, r.caller.accountID, result.Answer.Version, a.Directory.AwaitAccount)
	a.warnings.settle(r, result.Replayed, nil)
	view := viewUsedKey(*made, 0) // it cannot have been used before this response
	return reply{
		status:   http.StatusCreated,
		location: "/v1/api-keys/" + made.ID,
		replayed: result.Replayed,
		view:     keyMade{view, a.sameKey(r, text, made.Hash)},
	}, nil
}

// newKeyText generates a key. If the request has an Idempotency-Key, the new key is derived
// instead, so that a retry at any node returns the same key without storing it. The derivation
// includes the day, so that a revoked key never comes back, and the caller's key, so that a retry
// by another key, which may have fewer permissions, does not reveal the new key.
func (a *API) newKeyText(r *request) (string, error) {
	if r.idempotencyKey != "" && a.DeriveKey != nil {
		return a.derivedKey(r, 0), nil
	}
	var entropy [32]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return "", fmt.Errorf("drawing an API key: %w", err)
	}
	return domain.NewAPIKey(a.Live, entropy), nil
}

func (a *API) derivedKey(r *request, daysAgo int) string {
	day := a.Now().UTC().AddDate(0, 0, -daysAgo).Format(time.DateOnly)
	return domain.NewAPIKey(a.Live,
		a.DeriveKey("API key of "+r.commandID+" by "+r.caller.keyID+" on "+day))
}

// rememberedDays is how many days a retry may span. Answers are kept for at least 24 hours.
const rememberedDays = 3

// sameKey returns the key that matches the stored hash, or nil.
func (a *API) sameKey(r *request, text string, hash []byte) *string {
	if bytes.Equal(domain.APIKeyHash(text), hash) {
		return &text
	}
	for daysAgo := range rememberedDays {
		if a.DeriveKey == nil {
			break
		}
		if earlier := a.derivedKey(r, daysAgo); bytes.Equal(domain.APIKeyHash(earlier), hash) {
			return &earlier
		}
	}
	return nil
}

// rollKey creates a key with the name, permissions and networks of another key, which expires after
// the grace period. The caller must have the new key's permissions.
func (a *API) rollKey(ctx context.Context, r *request) (reply, error) {
	roll, faults := decodeRoll(r.body, r.key, a.earliestEnd(r))
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	key := domain.Key{
		Name:            r.key.Name,
		Permissions:     r.key.Permissions,
		AllowedCIDRs:    r.key.AllowedCIDRs,
		ExpiresAtMillis: roll.expiresAtMillis,
	}
	return a.makeKey(ctx, r, key, func(k domain.Key) domain.CommandBody {
		return domain.RollKey{
			AccountID:   r.caller.accountID,
			KeyID:       r.subjectID,
			Key:         k,
			GraceMillis: roll.graceMillis,
		}
	})
}

func (a *API) revokeKey(ctx context.Context, r *request) (reply, error) {
	result, err := a.submit(ctx, r,
		domain.RevokeKey{AccountID: r.caller.accountID, KeyID: r.subjectID})
	if err != nil {
		return reply{}, err
	}
	version := result.Answer.Version
	if result.Answer.Account != nil {
		version = result.Answer.Account.Version
	}
	a.awaitAnswer(ctx, r, result, r.caller.accountID, version, a.Directory.AwaitAccount)
	if a.Uses != nil {
		a.Uses.Forget(r.subjectID)
	}
	return reply{status: http.StatusNoContent, replayed: result.Replayed}, nil
}

const useEvery = time.Minute

type keyUsage struct {
	mu   sync.Mutex
	byID *lru.Cache[string, time.Time]
}

func newKeyUsage() *keyUsage { return &keyUsage{byID: newCache[string, time.Time](maxLimited)} }

// due reports whether a key's use should be recorded, at most once per minute.
func (u *keyUsage) due(keyID string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.byID.Get(keyID); known && now.Sub(last) < useEvery {
		return false
	}
	u.byID.Add(keyID, now)
	return true
}

// noteUse records the use of a key, unless a node has recorded it within the last minute.
func (a *API) noteUse(keyID string, now time.Time) {
	if a.Uses == nil || !a.usage.due(keyID, now) {
		return
	}
	usedAt, err := a.Directory.KeyUsedAt(keyID)
	if err == nil && now.UnixMilli()-usedAt < useEvery.Milliseconds() {
		return
	}
	a.Uses.Used(keyID, now.UnixMilli())
}
