package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of a key's fields.
const (
	maxKeyName      = 128
	maxPermissions  = 10
	maxCIDRs        = 50
	defaultGraceSec = 24 * 3600
	maxGraceSec     = 30 * 24 * 3600
)

// keyView is an API key as the API shows it.
type keyView struct {
	ID           string              `json:"id"`
	Name         string              `json:"name"`
	Permissions  []domain.Permission `json:"permissions"`
	AllowedCIDRs []string            `json:"allowedCidrs"`
	ExpiresAt    *string             `json:"expiresAt"`
	LastUsedAt   *string             `json:"lastUsedAt"`
	RolledTo     *string             `json:"rolledTo"`
	CreatedAt    string              `json:"createdAt"`
}

// keyMade is a key as its creation answers with it. The key is null in the
// repeat of an answer that cannot be made again.
type keyMade struct {
	keyView
	Key *string `json:"key"`
}

func (a *API) viewKey(k domain.Key) (keyView, error) {
	used, err := a.Directory.KeyUsedAt(k.ID)
	if err != nil {
		return keyView{}, fmt.Errorf("looking up the last use of a key: %w", err)
	}
	return viewUsedKey(k, used), nil
}

// viewUsedKey puts a key into the form of the API; 0: it was never used.
func viewUsedKey(k domain.Key, usedAtMillis int64) keyView {
	v := keyView{
		ID:           k.ID,
		Name:         k.Name,
		Permissions:  k.Permissions,
		AllowedCIDRs: k.AllowedCIDRs,
		CreatedAt:    domain.FormatMillis(k.CreatedAtMillis),
	}
	at := func(millis int64) *string {
		if millis == 0 {
			return nil
		}
		return pointer(domain.FormatMillis(millis))
	}
	v.ExpiresAt, v.LastUsedAt = at(k.ExpiresAtMillis), at(usedAtMillis)
	if k.RolledTo != "" {
		v.RolledTo = &k.RolledTo
	}
	return v
}

func (a *API) getKey(_ context.Context, x *exchange) (reply, *Problem) {
	view, err := a.viewKey(x.key)
	if err != nil {
		return reply{}, internal(err)
	}
	return jsonReply(http.StatusOK, view)
}

// listKeys gives the keys of the account's row, of which there are at most
// domain.MaxKeys.
func (a *API) listKeys(_ context.Context, x *exchange) (reply, *Problem) {
	q := newQuery(x)
	after, limit, problem := a.page(x, q)
	if problem != nil {
		return reply{}, problem
	}
	account, _, err := a.Directory.Account(x.caller.accountID)
	if err != nil {
		return reply{}, internal(fmt.Errorf("looking up an account: %w", err))
	}
	keys := slices.DeleteFunc(slices.Clone(account.Keys), func(k domain.Key) bool {
		return k.Expired(a.Now().UnixMilli()) ||
			after != nil && !newerKey(domain.Key{ID: after.ID, CreatedAtMillis: after.CreatedAtMillis}, k)
	})
	slices.SortFunc(keys, func(a, b domain.Key) int {
		if newerKey(a, b) {
			return -1
		}
		return 1
	})
	var next *Position
	if len(keys) > limit {
		keys = keys[:limit]
		next = &Position{CreatedAtMillis: keys[limit-1].CreatedAtMillis, ID: keys[limit-1].ID}
	}
	views := make([]keyView, len(keys))
	for i, k := range keys {
		if views[i], err = a.viewKey(k); err != nil {
			return reply{}, internal(err)
		}
	}
	return listReply(a, x, q, views, next)
}

// newerKey is the order of the list: newest first.
func newerKey(a, b domain.Key) bool {
	if a.CreatedAtMillis != b.CreatedAtMillis {
		return a.CreatedAtMillis > b.CreatedAtMillis
	}
	return a.ID > b.ID
}

func (a *API) createKey(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	key, problem := a.readNewKey(x, a.repeatsKey(x, command.ID))
	if problem != nil {
		return reply{}, problem
	}
	if problem := a.mayGive(x, key.Permissions); problem != nil {
		return reply{}, problem
	}
	return a.makeKey(ctx, x, command, key, func(k domain.Key) domain.CommandBody {
		return domain.CreateKey{AccountID: x.caller.accountID, Key: k}
	})
}

// repeatsKey reports whether a command made a key before, as far as this node
// knows.
func (a *API) repeatsKey(x *exchange, commandID string) bool {
	return a.repeats(x, commandID, func() (bool, error) {
		account, _, err := a.Directory.Account(x.caller.accountID)
		_, made := account.Key(domain.DeriveID(domain.KeyPrefix, commandID))
		return made, err
	})
}

// mayGive refuses permissions that the caller's key does not have: nobody can
// give more than what they have.
func (a *API) mayGive(x *exchange, permissions []domain.Permission) *Problem {
	for _, p := range permissions {
		if !slices.Contains(x.caller.permissions, p) {
			return newProblem(codeMissingPermission,
				fmt.Sprintf("The API key lacks the permission %q, and so it cannot make a key that has it.", p))
		}
	}
	return nil
}

// makeKey draws a key, submits the command that keeps its hash, and answers with
// the key.
func (a *API) makeKey(
	ctx context.Context, x *exchange, command domain.Command, key domain.Key,
	body func(domain.Key) domain.CommandBody,
) (reply, *Problem) {
	text, err := a.newKeyText(x, command.ID)
	if err != nil {
		return reply{}, internal(err)
	}
	key.ID, key.Hash = domain.DeriveID(domain.KeyPrefix, command.ID), domain.APIKeyHash(text)
	command.Body = body(key)
	result, problem := a.submit(ctx, x, command)
	made, problem := answerOf(result, problem, command, result.Answer.Key)
	if problem != nil {
		return reply{}, problem
	}
	if problem := a.mayGive(x, made.Permissions); problem != nil {
		// the repeat of a roll, by another key: the one that was rolled is gone, and only the answer
		// tells its powers
		return reply{}, problem
	}
	a.awaitAnswer(ctx, x, result, x.caller.accountID, result.Answer.Version, a.Directory.AwaitAccount)
	a.answered.settle(x, command.ID, result.Replayed, nil)
	view := viewUsedKey(*made, 0) // nobody had it before this answer
	return created("/v1/api-keys/"+made.ID, result.Replayed,
		keyMade{view, a.sameKey(text, command.ID, made.Hash)})
}

// newKeyText makes a key. That of a request that may be repeated is derived, so
// that the repeat, at any node, makes the same one: nobody keeps it. The day is
// part of it, so that a key that was revoked never comes back.
func (a *API) newKeyText(x *exchange, commandID string) (string, error) {
	if x.idempotencyKey != "" && a.DeriveKey != nil {
		return a.derivedKey(commandID, 0), nil
	}
	var entropy [32]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return "", fmt.Errorf("drawing an API key: %w", err)
	}
	return domain.NewAPIKey(a.Live, entropy), nil
}

func (a *API) derivedKey(commandID string, daysAgo int) string {
	day := a.Now().UTC().AddDate(0, 0, -daysAgo).Format(time.DateOnly)
	return domain.NewAPIKey(a.Live, a.DeriveKey("API key of "+commandID+" on "+day))
}

// rememberedDays is over how many days a repeat may come: an answer is kept for
// 24 hours at least.
const rememberedDays = 3

// sameKey finds the key whose hash was kept, or nothing.
func (a *API) sameKey(text, commandID string, hash []byte) *string {
	if bytes.Equal(domain.APIKeyHash(text), hash) {
		return &text
	}
	for daysAgo := range rememberedDays {
		if a.DeriveKey == nil {
			break
		}
		if earlier := a.derivedKey(commandID, daysAgo); bytes.Equal(domain.APIKeyHash(earlier), hash) {
			return &earlier
		}
	}
	return nil
}

// readNewKey reads all fields of a key.
func (a *API) readNewKey(x *exchange, repeated bool) (domain.Key, *Problem) {
	root, problem := parseJSON(x.body)
	if problem != nil {
		return domain.Key{}, problem
	}
	var f faults
	var key domain.Key
	if o, ok := asObject(root, "", &f); ok {
		o.only("name", "permissions", "expiresAt", "allowedCidrs")
		key.Name = readFreeText(o, "name", maxKeyName)
		key.Permissions = readPermissions(o)
		key.ExpiresAtMillis = a.readExpiry(o, repeated)
		key.AllowedCIDRs = readCIDRs(o)
	}
	return key, f.problem()
}

func readPermissions(o object) []domain.Permission {
	if _, given := o.get("permissions"); !given {
		o.fault("permissions", faultRequired, "is required: name one or more of read, write and operate")
		return nil
	}
	elements, ok := o.array("permissions", maxPermissions)
	if ok && len(elements) == 0 {
		o.fault("permissions", faultEmpty, "must name at least one of read, write and operate")
	}
	var permissions []domain.Permission
	for i, element := range elements {
		at := o.element("permissions", i)
		s, ok := asText(element, at, o.faults)
		p := domain.Permission(s)
		switch {
		case !ok:
		case !slices.Contains(domain.Permissions(), p):
			o.faults.add(at, faultInvalidValue, "must be read, write or operate")
		case slices.Contains(permissions, p):
			o.faults.add(at, faultDuplicate, "is named twice")
		default:
			permissions = append(permissions, p)
		}
	}
	return permissions
}

// readExpiry reads when a key ends; 0: never.
func (a *API) readExpiry(o object, repeated bool) int64 {
	millis, given := o.time("expiresAt")
	if given && !repeated && millis <= a.Now().UnixMilli() {
		o.fault("expiresAt", faultOutOfRange, "must be in the future")
	}
	return millis
}

func readCIDRs(o object) []string {
	elements, _ := o.array("allowedCidrs", maxCIDRs)
	var cidrs []string
	for i, element := range elements {
		at := o.element("allowedCidrs", i)
		s, ok := asText(element, at, o.faults)
		if !ok {
			continue
		}
		prefix, ok := parseCIDR(s)
		switch {
		case !ok:
			o.faults.add(at, faultInvalidCIDR,
				"must be a network such as 192.0.2.0/24 or 2001:db8::/32, or one address")
		case slices.Contains(cidrs, prefix):
			o.faults.add(at, faultDuplicate, "is the same network as an earlier element")
		default:
			cidrs = append(cidrs, prefix)
		}
	}
	return cidrs
}

// parseCIDR puts a network, or one address, into its one form.
func parseCIDR(s string) (string, bool) {
	if !strings.Contains(s, "/") {
		address, err := netip.ParseAddr(s)
		if err != nil || address.Zone() != "" {
			return "", false
		}
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()).String(), true
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil || prefix.Addr().Is4In6() {
		return "", false
	}
	return prefix.Masked().String(), true
}

// rollKey makes a key with the name, permissions and networks of another, which
// ends after the grace. Whoever may roll a key gets its powers, so it must have
// them.
func (a *API) rollKey(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	grace, expires, problem := a.readRoll(x, a.repeatsKey(x, command.ID))
	if problem != nil {
		return reply{}, problem
	}
	if problem := a.mayGive(x, x.key.Permissions); problem != nil {
		return reply{}, problem
	}
	key := domain.Key{
		Name:            x.key.Name,
		Permissions:     x.key.Permissions,
		AllowedCIDRs:    x.key.AllowedCIDRs,
		ExpiresAtMillis: expires,
	}
	return a.makeKey(ctx, x, command, key, func(k domain.Key) domain.CommandBody {
		return domain.RollKey{AccountID: x.caller.accountID, KeyID: x.key.ID, Key: k, GraceMillis: grace}
	})
}

// readRoll reads how long the former key goes on working and when the new one
// ends: when the former would have, unless another time is given.
func (a *API) readRoll(
	x *exchange, repeated bool,
) (graceMillis, expiresAtMillis int64, problem *Problem) {
	graceMillis, expiresAtMillis = defaultGraceSec*1000, x.key.ExpiresAtMillis
	if x.key.RolledTo != "" {
		expiresAtMillis = 0 // its end is that of the grace; the engine refuses it anyway
	}
	if len(x.body) == 0 {
		return graceMillis, expiresAtMillis, nil
	}
	root, problem := parseJSON(x.body)
	if problem != nil {
		return 0, 0, problem
	}
	var f faults
	if o, ok := asObject(root, "", &f); ok {
		o.only("graceSeconds", "expiresAt")
		if seconds, given := o.integer("graceSeconds", 0, maxGraceSec); given {
			graceMillis = int64(seconds) * 1000
		}
		if _, given := o.get("expiresAt"); given {
			expiresAtMillis = a.readExpiry(o, repeated)
		}
	}
	return graceMillis, expiresAtMillis, f.problem()
}

func (a *API) revokeKey(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	command.Body = domain.RevokeKey{AccountID: x.caller.accountID, KeyID: x.key.ID}
	result, problem := a.submit(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	version := result.Answer.Version
	if result.Answer.Account != nil {
		version = result.Answer.Account.Version
	}
	a.awaitAnswer(ctx, x, result, x.caller.accountID, version, a.Directory.AwaitAccount)
	if a.Uses != nil {
		a.Uses.Forget(x.key.ID)
	}
	return reply{status: http.StatusNoContent, replayed: result.Replayed}, nil
}
