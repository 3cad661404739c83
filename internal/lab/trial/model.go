package trial

import (
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// model holds the expectations of the driver, derived from its own requests and their answers,
// never from the product's computations.
//
// A client's change takes effect at a ledger that cannot be known exactly from outside: not
// in one that had been read before the request, and surely in one that closes after the
// answer. Each version of a watch has these two bounds, and a payment between them may have
// been matched by either version.
type model struct {
	mu       sync.Mutex
	payments []Payment
	watches  []*watch
	moved    map[string]string // event id → endpoint that it has left
}

// movedFrom records that an event was sent on from an endpoint.
func (m *model) movedFrom(eventID, endpointID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(map[string]string)
	}
	m.moved[eventID] = endpointID
}

// account is one customer.
type account struct {
	id, key   string
	endpoints map[string]*endpoint
	watches   map[string]*watch
}

// endpoint is an endpoint of the model. Only its account's lane changes it.
type endpoint struct {
	slot, id, account string
	server            string // h2, h1, closed or badtls
	url               string
	secrets           []secret
	deletedAsked      time.Time
	deleted           time.Time // when the deletion was answered; zero: not deleted
}

// secret is valid from some moment between these two on. None expires within a run.
type secret struct {
	text         string
	asked, known time.Time
}

// watch is a watch with all its versions, oldest first. Only its account's lane adds
// versions.
type watch struct {
	slot, id, account, wallet string
	versions                  []version
	backfills                 []backfill
}

func (a *account) watchOf(id string) *watch {
	for _, k := range a.watches {
		if k.id == id {
			return k
		}
	}
	return nil
}

// hasNamed reports whether a watch was ever requested to report to an endpoint.
func (k *watch) hasNamed(endpointID string) bool {
	return k != nil && slices.ContainsFunc(k.versions, func(v version) bool {
		return v.endpoint != nil && v.endpoint.id == endpointID
	})
}

// version are a watch's settings from a ledger on.
type version struct {
	label    string
	endpoint *endpoint // nil: it reports nothing
	rules    draw.Rules
	gone     bool   // deleted, or its endpoint is
	notUpTo  uint32 // a ledger that had been read before the request
	surely   uint32 // a ledger that was closed at the answer; 0: none yet
}

// backfill is a request to read past ledgers.
type backfill struct {
	from, to uint32 // to: as far as is certain, 0: unknown
	first    int    // the latest version at the request
	last     int    // the latest version when it had ended; -1: it did not end
	complete bool   // it ended without a problem
}

func (m *model) paid(p Payment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.payments = append(m.payments, p)
}

func (m *model) allPayments() []Payment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.payments)
}

// now returns the latest version.
func (k *watch) now() *version { return &k.versions[len(k.versions)-1] }

// live returns the versions with which the live ledger may have matched a payment. Before
// its creation a watch has the version with index -1, returned as none.
func (k *watch) live(ledger uint32) (may []version, none bool) {
	none = len(k.versions) == 0 || ledger <= k.versions[0].surely || k.versions[0].surely == 0
	for i, v := range k.versions {
		superseded := i+1 < len(k.versions) && k.versions[i+1].surely != 0 &&
			ledger > k.versions[i+1].surely
		if ledger > v.notUpTo && !superseded {
			may = append(may, v)
		}
	}
	return may, none
}

// later returns the versions that report what a version without an endpoint missed at a ledger.
func (k *watch) later(ledger uint32) []version {
	for i, v := range k.versions {
		if v.orphaned() && ledger > v.notUpTo && (i+1 == len(k.versions) ||
			k.versions[i+1].surely == 0 || ledger <= k.versions[i+1].surely) {
			return k.versions[i+1:]
		}
	}
	return nil
}

// orphaned reports whether the watch has no endpoint with this version, and is not deleted.
func (v version) orphaned() bool { return v.gone && v.endpoint != nil }

// verdict is a version's result for a payment.
type verdict struct {
	kind     string // type of the event; "" for none
	label    string
	endpoint *endpoint
	reasons  []string
}

func (v version) judge(p Payment, w *world) verdict {
	if v.gone || v.endpoint == nil {
		return verdict{}
	}
	kind, reasons := v.rules.Event(p.Payment)
	at := w.expiry(v.rules)
	if kind == "" || at != nil && time.Unix(p.ClosedAt, 0).After(*at) {
		return verdict{}
	}
	return verdict{kind: kind, label: v.label, endpoint: v.endpoint, reasons: reasons}
}

// expected returns the events that a payment may have with a watch, and whether it must
// have one.
func (k *watch) expected(p Payment, w *world) (may []verdict, must bool) {
	if p.To != k.wallet || p.Stroops == 0 {
		return nil, false
	}
	live, none := k.live(p.Ledger)
	must = len(live) > 0 && !none
	all := func(versions []version) bool {
		matched := true
		for _, v := range versions {
			judged := v.judge(p, w)
			if matched = matched && judged.kind != ""; judged.kind != "" {
				may = append(may, judged)
			}
		}
		return matched
	}
	later := k.later(p.Ledger)
	if len(later) > 0 {
		for i, v := range live { // a payment is missed if it matches what the watch had then
			live[i].gone = v.gone && !v.orphaned()
		}
		must = all(later) && must
	}
	must = all(live) && must
	for _, b := range k.backfills {
		if p.Ledger < b.from || b.to != 0 && p.Ledger > b.to {
			continue
		}
		last := b.last
		if last < 0 {
			last = len(k.versions) - 1
		}
		// It matches each ledger again, whatever a version before it made of it.
		if all(k.versions[b.first:last+1]) && b.complete && b.to != 0 {
			must = true
		}
	}
	return may, must
}
