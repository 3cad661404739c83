package trial

import (
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// model holds the driver's expectations. They are derived from its own requests and the responses,
// never from the product's computations.
//
// From outside, it is impossible to know exactly at which ledger a client's change takes effect:
// not in a ledger that had been read before the request, and certainly in one that closes after the
// response. Each version of a watch has these two bounds, and either version may have matched a
// payment in between.
type model struct {
	mu       sync.Mutex
	payments []Payment
	watches  []*watch
	moved    map[string]string // endpoint that an event has left, by event id
}

func (m *model) movedFrom(eventID, endpointID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(map[string]string)
	}
	m.moved[eventID] = endpointID
}

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
	deleted           time.Time // time of the response to the deletion; zero if not deleted
}

// secret becomes valid at some time between asked and known. No secret expires within a run.
type secret struct {
	text         string
	asked, known time.Time
}

// watch is a watch with all its versions, oldest first. Only its account's lane adds versions.
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

// hasNamed reports whether a version of the watch, or a request for one, named an endpoint.
func (k *watch) hasNamed(endpointID string) bool {
	return k != nil && slices.ContainsFunc(k.versions, func(v version) bool {
		return v.endpoint != nil && v.endpoint.id == endpointID
	})
}

// version holds a watch's settings from some ledger on.
type version struct {
	label    string
	endpoint *endpoint // nil if it reports nothing
	rules    draw.Rules
	gone     bool   // the watch or its endpoint was deleted
	notUpTo  uint32 // a ledger that had been read before the request
	surely   uint32 // a ledger that was closed at the time of the response; 0 if there is none yet
}

type backfill struct {
	from, to uint32 // to is as far as is certain; 0 if unknown
	first    int    // latest version at the time of the request
	last     int    // latest version when it had ended; -1 if it did not end
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

func (k *watch) now() *version { return &k.versions[len(k.versions)-1] }

// live returns the versions with which live reading may have matched a payment. none reports
// whether the watch may not have existed yet.
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

// orphaned reports whether the watch has no endpoint in this version but was not deleted.
func (v version) orphaned() bool { return v.gone && v.endpoint != nil }

type verdict struct {
	kind     string // type of the event, or ""
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

// expected returns the events that a payment may have with a watch, and whether it must have one.
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
		for i, v := range live { // a payment was missed if it matches the watch's version at that time
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
		// It matches each ledger again, no matter what an earlier version did.
		if all(k.versions[b.first:last+1]) && b.complete && b.to != 0 {
			must = true
		}
	}
	return may, must
}
