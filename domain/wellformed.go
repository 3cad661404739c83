package domain

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Limits of commands and matches. The API and the follower have stricter limits. These apply to
// everything else that can write to the topics and keep an aggregate's record below the broker's
// limit of 1 MiB. An endpoint has up to MaxSecrets encrypted secrets in addition to its headers.
const (
	maxIDBytes      = 128
	maxTextBytes    = 16 << 10
	maxNameBytes    = 1 << 10
	maxSealedBytes  = 6 << 10
	maxEventBytes   = 64 << 10
	maxHashBytes    = 64
	maxHeaders      = 32
	maxPermissions  = 16
	maxCIDRs        = 100
	maxAssets       = 1000
	maxSenders      = 4000
	maxRate         = 1_000_000
	maxCount        = 1 << 30
	maxStatedMillis = 7_258_118_400_000 // the year 2200
)

// WellFormed returns nil if the command can be passed to a Decide function.
func (c Command) WellFormed() error {
	if err := errors.Join(checkID("command id", CommandPrefix, c.ID),
		checkID("account", AccountPrefix, c.AccountID),
		atMost("key", len(c.KeyID), maxHashBytes),
		atMost("hash of the body", len(c.BodyHash), maxHashBytes)); err != nil {
		return err
	}
	return errors.Join(checkID(string(c.Kind()), c.Kind().prefix(), c.Body.Aggregate()),
		c.Body.wellFormed())
}

func (c CreateAccount) wellFormed() error {
	return errors.Join(atMost("email", len(c.Email), maxNameBytes), moreEmails(c.MoreEmails),
		c.Key.wellFormed())
}

func (c UpdateAccount) wellFormed() error {
	least := 1
	if c.Quotas != (Counts{}) {
		least = 0
	}
	return errors.Join(within("email", len(c.Email), least, maxNameBytes), moreEmails(c.MoreEmails),
		c.Quotas.wellFormed())
}

func moreEmails(emails []string) error {
	err := atMost("emails besides the first", len(emails), MaxEmails-1)
	for _, email := range emails {
		err = errors.Join(err, within("email", len(email), 1, maxNameBytes))
	}
	return err
}

func (c CreateKey) wellFormed() error { return c.Key.wellFormed() }

func (c RollKey) wellFormed() error {
	return errors.Join(checkID("key", KeyPrefix, c.KeyID), c.Key.wellFormed(),
		checkMillis("grace", c.GraceMillis))
}

// RevokeKey and other commands below only have fields that are looked up in the state.
func (RevokeKey) wellFormed() error { return nil }

func (k Key) wellFormed() error {
	err := errors.Join(checkID("key", KeyPrefix, k.ID), atMost("name", len(k.Name), maxNameBytes),
		within("hash", len(k.Hash), 1, maxHashBytes),
		atMost("permissions", len(k.Permissions), maxPermissions),
		atMost("allowed CIDRs", len(k.AllowedCIDRs), maxCIDRs), checkMillis("expiry", k.ExpiresAtMillis))
	for _, cidr := range k.AllowedCIDRs {
		err = errors.Join(err, atMost("CIDR", len(cidr), maxHashBytes))
	}
	for _, p := range k.Permissions {
		err = errors.Join(err, atMost("permission", len(p), maxHashBytes))
	}
	return err
}

func (c CreateEndpoint) wellFormed() error {
	return errors.Join(checkID("account", AccountPrefix, c.AccountID),
		c.EndpointSettings.wellFormed(), checkNoticesTo(c.EndpointID, &c.NoticesTo),
		within("sealed secret", len(c.SealedSecret), 1, maxSealedBytes))
}

func (c UpdateEndpoint) wellFormed() error {
	return errors.Join(c.Change.wellFormed(), checkNoticesTo(c.EndpointID, c.Change.NoticesTo))
}

// checkNoticesTo refuses an endpoint that would be notified about itself, because it can't receive
// the notification while it is failing.
func checkNoticesTo(endpointID string, noticesTo *string) error {
	if noticesTo != nil && *noticesTo == endpointID {
		return errors.New("an endpoint cannot receive notices about itself")
	}
	return nil
}

func (DisableEndpoint) wellFormed() error { return nil }

func (EnableEndpoint) wellFormed() error { return nil }

func (DeleteEndpoint) wellFormed() error { return nil }

func (c RotateSecret) wellFormed() error {
	return within("sealed secret", len(c.SealedSecret), 1, maxSealedBytes)
}

func (c ResealSecrets) wellFormed() error {
	var err error
	for _, v := range c.Values {
		err = errors.Join(err, within("sealed value", len(v.Sealed), 1, maxSealedBytes))
	}
	return err
}

func (c TestEndpoint) wellFormed() error {
	if c.Sample != "" && c.Sample != PaymentReceived {
		return fmt.Errorf("unknown sample type %.40q", c.Sample)
	}
	return nil
}

func (c ReplayEndpoint) wellFormed() error {
	return errors.Join(checkMillis("since", c.SinceMillis), checkMillis("until", c.UntilMillis))
}

func (c ReplayEvents) wellFormed() error {
	err := errors.Join(within("chosen events", len(c.EventIDs), 0, MaxReplay),
		within("matching events", c.Matched, len(c.EventIDs), math.MaxInt32))
	for _, id := range c.EventIDs {
		err = errors.Join(err, checkID("event", EventPrefix, id))
	}
	return err
}

func (c ResendEvent) wellFormed() error {
	err := checkID("event", EventPrefix, c.EventID)
	if c.ToEndpointID != "" {
		err = errors.Join(err, checkID("endpoint to continue at", EndpointPrefix, c.ToEndpointID))
	}
	if c.Remembered != nil {
		err = errors.Join(err, c.Remembered.wellFormed(c))
	}
	return err
}

// wellFormed checks that the delivery is the requested one and within the limits of a match.
func (r Remembered) wellFormed(asked ResendEvent) error {
	d := r.Delivery
	err := atMost("event's body", len(r.Body), maxEventBytes)
	if !d.Exists() {
		return err
	}
	if d.EventID != asked.EventID || d.EndpointID != asked.EndpointID {
		err = errors.Join(err, fmt.Errorf("the remembered delivery is of event %.40q to %.40q, not of "+
			"the requested one", d.EventID, d.EndpointID))
	}
	if d.WatchID != "" {
		err = errors.Join(err, checkID("watch", WatchPrefix, d.WatchID))
	}
	if d.MovedTo != "" {
		err = errors.Join(err, checkID("endpoint moved to", EndpointPrefix, d.MovedTo))
	}
	for _, former := range d.FormerEndpointIDs {
		err = errors.Join(err, checkID("former endpoint", EndpointPrefix, former))
	}
	return errors.Join(err, checkID("account", AccountPrefix, d.AccountID),
		atMost("event type", len(d.EventType), maxHashBytes),
		checkMillis("event's time", d.CreatedAtMillis), within("moves", d.Moves, 0, MaxMoves),
		within("attempts", d.Attempts, 0, maxCount), within("runs", d.Run, 1, maxCount),
		within("former endpoints", len(d.FormerEndpointIDs), 0, d.Moves))
}

// headersFormed checks that header names are tokens (RFC 9110, section 5.6.2), as far as is needed
// to keep requests well-formed: no spaces, colons or control characters.
func headersFormed(headers []Header) error {
	err := atMost("headers", len(headers), maxHeaders)
	for _, h := range headers {
		err = errors.Join(err, within("header name", len(h.Name), 1, maxNameBytes),
			atMost("sealed header", len(h.Sealed), maxSealedBytes))
		for i := range len(h.Name) {
			if h.Name[i] <= ' ' || h.Name[i] > '~' || h.Name[i] == ':' {
				err = errors.Join(err, fmt.Errorf("%q is not the name of a header", h.Name))
				break
			}
		}
	}
	return err
}

func (c CreateWatch) wellFormed() error {
	w := c.Watch
	if w.DeletedAtMillis != 0 || w.Fulfilled.Is() {
		return errors.New("a new watch cannot be deleted or fulfilled")
	}
	return errors.Join(checkID("account", AccountPrefix, w.AccountID),
		checkID("endpoint", EndpointPrefix, w.EndpointID),
		checkName("wallet", w.WalletAddress), atMost("label", len(w.Label), maxTextBytes),
		assetsFormed(w.Rules.Assets), sendersFormed(w.Rules.SenderAllowlist),
		w.Rules.Amount.wellFormed(), w.Rules.Memo.wellFormed(), eventTypesFormed(w.EventTypes),
		checkMillis("expiry", w.ExpiresAtMillis))
}

func (c UpdateWatch) wellFormed() error { return c.Change.wellFormed() }

func (DeleteWatch) wellFormed() error { return nil }

func (c BackfillWatch) wellFormed() error {
	if c.To != 0 && c.From > c.To {
		return fmt.Errorf("ledgers %d to %d: the first is after the last", c.From, c.To)
	}
	return nil
}

func (c RecordCoverage) wellFormed() error {
	if c.From > c.To {
		return fmt.Errorf("ledgers %d to %d: the first is after the last", c.From, c.To)
	}
	return errors.Join(atMost("problem", len(c.Problem), maxTextBytes),
		atMost("payment", len(c.Fulfils.PaymentID), maxIDBytes))
}

func (c WatchChange) wellFormed() error {
	var err error
	if c.Label != nil {
		err = atMost("label", len(*c.Label), maxTextBytes)
	}
	if c.EndpointID != nil {
		err = errors.Join(err, checkID("endpoint", EndpointPrefix, *c.EndpointID))
	}
	if c.Assets != nil {
		err = errors.Join(err, assetsFormed(*c.Assets))
	}
	if c.Amount != nil {
		err = errors.Join(err, c.Amount.wellFormed())
	}
	if c.Memo != nil {
		err = errors.Join(err, c.Memo.wellFormed())
	}
	if c.SenderAllowlist != nil {
		err = errors.Join(err, sendersFormed(*c.SenderAllowlist))
	}
	if c.EventTypes != nil {
		err = errors.Join(err, eventTypesFormed(*c.EventTypes))
	}
	if c.ExpiresAtMillis != nil {
		err = errors.Join(err, checkMillis("expiry", *c.ExpiresAtMillis))
	}
	return err
}

// wellFormed checks that this version knows the rule. An unknown rule would verify every payment.
func (r AmountRule) wellFormed() error {
	kinds := []AmountKind{AmountAny, AmountExact, AmountMin, AmountMax, AmountRange}
	if !slices.Contains(kinds, r.Kind) {
		return fmt.Errorf("unknown amount rule %q", r.Kind)
	}
	return nil
}

func (r MemoRule) wellFormed() error {
	if !slices.Contains([]MemoKind{MemoAny, MemoPresent, MemoAbsent, MemoEquals}, r.Kind) {
		return fmt.Errorf("unknown memo rule %q", r.Kind)
	}
	return errors.Join(atMost("memo type", len(r.Value.Type), maxHashBytes),
		atMost("memo", len(r.Value.Raw), maxNameBytes))
}

func assetsFormed(assets []Asset) error {
	err := atMost("assets", len(assets), maxAssets)
	for _, a := range assets {
		err = errors.Join(err, atMost("asset code", len(a.Code), maxIDBytes),
			atMost("issuer", len(a.Issuer), maxIDBytes))
	}
	return err
}

func sendersFormed(senders []string) error {
	err := atMost("senders", len(senders), maxSenders)
	for _, s := range senders {
		err = errors.Join(err, atMost("sender", len(s), maxIDBytes))
	}
	return err
}

func eventTypesFormed(types []EventType) error {
	err := within("event types", len(types), 1, maxPermissions)
	for _, t := range types {
		if t != PaymentReceived && t != PaymentRejected {
			err = errors.Join(err, fmt.Errorf("a watch cannot report events of type %q", t))
		}
	}
	return err
}

// WellFormed returns nil if the match can be passed to an endpoint.
func (m MatchInput) WellFormed() error {
	return errors.Join(m.sourceFormed(),
		checkID("account", AccountPrefix, m.AccountID), checkID("endpoint", EndpointPrefix, m.EndpointID),
		checkID("event", EventPrefix, m.Event.ID), atMost("wallet", len(m.WalletAddress), maxIDBytes),
		checkMillis("event's time", m.Event.CreatedAtMillis),
		within("event's body", len(m.Event.Body), 1, maxEventBytes),
		within("moves", m.Moved.Moves, 0, MaxMoves), within("attempts", m.Moved.Attempts, 0, maxCount),
		within("runs", m.Moved.Runs, 0, maxCount),
		within("former endpoints", len(m.Moved.FormerEndpointIDs), 0, m.Moved.Moves))
}

// sourceFormed checks that the event comes from a watch or is a notice about another endpoint.
func (m MatchInput) sourceFormed() error {
	if !m.Event.Type.TellsOfEndpoint() {
		return errors.Join(checkID("watch", WatchPrefix, m.WatchID),
			eventTypesFormed([]EventType{m.Event.Type}))
	}
	return errors.Join(within("watch of a notice", len(m.WatchID), 0, 0),
		within("moves of a notice", m.Moved.Moves, 0, 0))
}

// maxClosedMillis is the end of 2105, the last time that the history's 32-bit columns can store.
const maxClosedMillis = 4_291_747_199_999

// WellFormed returns nil if the payment can be stored in the history.
func (p Payment) WellFormed() error {
	err := errors.Join(within("payment", len(p.ID), 1, maxIDBytes),
		within("wallet", len(p.To), 1, maxIDBytes),
		atMost("memo", len(p.Memo.Raw), maxNameBytes))
	if p.ClosedAtMillis < 0 || p.ClosedAtMillis > maxClosedMillis {
		err = errors.Join(err,
			fmt.Errorf("its ledger's close %d is not a time in milliseconds", p.ClosedAtMillis))
	}
	return err
}

// maxPaymentsOfMove is more than one operation can pay to one wallet. The network limits the events
// of a contract call to 16 KiB, and a payment's event takes more than 100 bytes.
const maxPaymentsOfMove = 10_000

// WellFormed returns nil if the move can be stored in the history.
func (m BalanceMove) WellFormed() error {
	err := errors.Join(checkID("move", MovePrefix, m.ID),
		within("wallet", len(m.Wallet), 1, maxIDBytes),
		within("kind", len(m.Kind), 1, maxIDBytes),
		within("transaction", len(m.TxHash), 1, maxIDBytes),
		within("operation", m.Operation, 0, math.MaxInt32),
		atMost("pool", len(m.Pool), maxIDBytes),
		atMost("payments", len(m.PaymentIDs), maxPaymentsOfMove),
		assetsFormed([]Asset{m.Asset}))
	for _, id := range m.PaymentIDs {
		err = errors.Join(err, within("payment", len(id), 1, maxIDBytes))
	}
	if m.BeforeStroops < 0 || m.AfterStroops < 0 {
		err = errors.Join(err, errors.New("a balance is negative"))
	}
	if m.ClosedAtMillis < 0 || m.ClosedAtMillis > maxClosedMillis {
		err = errors.Join(err,
			fmt.Errorf("its ledger's close %d is not a time in milliseconds", m.ClosedAtMillis))
	}
	return err
}

// checkID checks that an ID can be part of a state key: its prefix and its characters.
func checkID(what, prefix, id string) error {
	if len(id) <= len(prefix) || id[:len(prefix)] != prefix {
		return fmt.Errorf("%s %.40q does not begin with %s", what, id, prefix)
	}
	return checkName(what, id)
}

func checkName(what, name string) error {
	if err := within(what, len(name), 1, maxIDBytes); err != nil {
		return err
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return fmt.Errorf("%s %q has the character %q", what, name, c)
		}
	}
	return nil
}

func checkMillis(what string, millis int64) error {
	if millis < 0 || millis > maxStatedMillis {
		return fmt.Errorf("%s %d is not a time in milliseconds", what, millis)
	}
	return nil
}

func atMost(what string, n, most int) error { return within(what, n, 0, most) }

func within(what string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d is not from %d to %d", what, n, least, most)
	}
	return nil
}
