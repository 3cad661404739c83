//go:build kafka

package main

import (
	"flag"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
)

var (
	clusterPayments = flag.Int("cluster.payments", 2000,
		"payments, at least, through all that happens to a cluster")
	clusterPartitions = flag.Int("cluster.partitions", 8, "partitions of each keyed topic")
	clusterEngines    = flag.Int("cluster.engines", 2, "engines, two at least")
	clusterStandbys   = flag.Int("cluster.standbys", 1, "standbys of each partition")
	clusterEach       = flag.Duration("cluster.each", 30*time.Second,
		"how long a blow and the recovery from it are expected to take: payments are spread over all of them")
	clusterBlows = flag.String("cluster.blows", "",
		"regular expression of what happens to it; empty: all")
)

// blow is a fault or an operation that a site goes through under load.
type blow struct {
	name   string
	strike func() []time.Time
	// from is when the blow began; to is when payments to every wallet were reported again.
	from, to time.Time
	// losses are the times at which attempts in flight were lost with their process.
	losses []time.Time
	// regroups says that partitions may move between processes during the blow, and that attempts in
	// flight are lost with them (G7).
	regroups bool
	lost     int // attempts
}

// TestClusterDeliversEachPaymentOnce runs the real program as processes with minimal rights. They
// must deliver every payment under one id while each role and each broker is killed once, an engine
// is paused and resumed, and every process is restarted.
func TestClusterDeliversEachPaymentOnce(t *testing.T) {
	s := newSite(t)
	wallets := s.open()
	paying := newPaying(t, s.pays, wallets, *clusterPayments)
	blows := s.blows(paying)
	paying.pace(*clusterEach * time.Duration(len(blows)))
	paying.start()
	s.flowing(paying, time.Now())
	t.Log("payments to every wallet are told of")
	for _, r := range s.order {
		t.Logf("%s has %d connections to the brokers", r.name, s.connections(r))
	}
	began := time.Now()
	for i, b := range blows {
		b.from = time.Now()
		b.losses = b.strike()
		s.flowing(paying, time.Now())
		b.to = time.Now()
		each := max(*clusterEach, b.to.Sub(began)/time.Duration(i+1))
		paying.pace(each * time.Duration(len(blows)-i))
		events, posts := s.receipts.accepted()
		t.Logf("%s: over after %.1f s; every wallet had an attempt after %.1f s; the longest wait "+
			"of a payment was %.1f s; %s; %d payments, %d events taken, %d posts so far",
			b.name, b.to.Sub(b.from).Seconds(), s.firstToEach(paying.made(), b).Seconds(),
			s.longestWait(paying.made(), b).Seconds(), sayTakeOvers(s.takeOvers(b)), len(paying.made()),
			events, posts)
	}
	paying.finish()
	s.account(paying, blows)
	for i := range s.order {
		s.order[len(s.order)-1-i].terminate()
	}
}

// mayLose reports whether the blow explains why an attempt that began at a time is missing from the
// history.
func (b *blow) mayLose(began time.Time) bool {
	if b.regroups && began.After(b.from.Add(-turnMax)) && began.Before(b.to) {
		return true
	}
	return slices.ContainsFunc(b.losses, func(at time.Time) bool {
		before := at.Sub(began)
		return before > -time.Second && before < turnMax
	})
}

func (s *site) blows(p *paying) (list []*blow) {
	for _, n := range s.cluster.Nodes() {
		list = append(list, &blow{
			name:     "kill -9 of broker " + n.Addr(),
			regroups: true,
			strike: func() []time.Time {
				s.killBroker(p, n)
				return nil
			},
		})
	}
	list = append(list,
		&blow{name: "kill -9 of an engine", strike: func() []time.Time {
			return s.failOver(p, s.by["engine-0"])
		}},
		&blow{name: "kill -9 of an engine, started again at once", strike: func() []time.Time {
			return s.killAndRestart(s.by["engine-1"])
		}},
		&blow{name: "kill -9 of the active follower", strike: func() []time.Time {
			s.failOver(p, s.activeFollower())
			return nil
		}},
		&blow{name: "kill -9 of the API", strike: func() []time.Time { s.killAPI(); return nil }},
		&blow{name: "kill -9 of the projector", strike: func() []time.Time {
			s.killAndRestart(s.by["projector-0"])
			return nil
		}},
		&blow{name: "kill -9 of the mailer", strike: func() []time.Time { s.killMailer(); return nil }},
		&blow{name: "an engine stands still and wakes", strike: func() []time.Time {
			return s.standStill(p, s.by["engine-1"])
		}},
		&blow{name: "rolling restart", strike: func() []time.Time { s.restartAll(); return nil }},
	)
	wanted := regexp.MustCompile(*clusterBlows)
	return slices.DeleteFunc(list, func(b *blow) bool { return !wanted.MatchString(b.name) })
}

// flowing waits until each wallet has a reported payment that was made after a time.
func (s *site) flowing(p *paying, after time.Time) {
	s.t.Helper()
	s.until("payments to every wallet are told of again", func() bool {
		came := make(map[int]bool)
		for _, one := range p.since(after) {
			if _, told := s.receipts.first(one.id); told {
				came[one.wallet] = true
			}
		}
		return len(came) == len(p.wallets)
	})
}

// killBroker kills a broker and restarts it once payments flow without it.
func (s *site) killBroker(p *paying, n *kafkatest.Node) {
	s.t.Helper()
	if err := n.Kill(); err != nil {
		s.t.Fatal(err)
	}
	s.flowing(p, time.Now())
	if err := n.Start(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cluster.AwaitInSync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// failOver kills a process and restarts it once others have taken over. Its supervisor must have
// removed it from its group, so that the others don't wait for its session to expire.
func (s *site) failOver(p *paying, r *role) []time.Time {
	s.t.Helper()
	killed := time.Now()
	r.kill()
	if !strings.Contains(r.output.String(), saidRemoved) {
		s.t.Errorf("%s was not removed from its group:\n%s", r.name, r.output)
	}
	s.flowing(p, time.Now())
	s.again(r)
	return []time.Time{killed}
}

// activeFollower returns the follower that reads ledgers. A standby has read none.
func (s *site) activeFollower() (active *role) {
	s.t.Helper()
	for _, name := range []string{"follower-0", "follower-1"} {
		if s.metric(s.by[name], "lumenhook_ledger_sequence") > 0 {
			active = s.by[name]
		}
	}
	if active == nil {
		s.t.Fatalf("no follower is active:\n%s", s.states())
	}
	return active
}

func (s *site) killAndRestart(r *role) []time.Time {
	s.t.Helper()
	killed := time.Now()
	r.kill()
	s.again(r)
	return []time.Time{killed}
}

// killAPI kills and restarts the API, and then changes something through it.
func (s *site) killAPI() {
	s.t.Helper()
	s.killAndRestart(s.by["api-0"])
	s.walletAt(s.receipts.url + "/never")
}

// killMailer kills the mailer and has an endpoint disabled in the meantime. The next process must
// write to the owner.
func (s *site) killMailer() {
	s.t.Helper()
	r := s.by["mailer-0"]
	wallet := s.walletAt(s.receipts.url + gonePath)
	r.kill()
	s.payGone(wallet)
	s.again(r)
	var mail string
	r.until("the mail came", func() bool {
		select {
		case mail = <-s.mails:
		default:
		}
		return mail != ""
	})
	if !strings.Contains(mail, "ops@shop.example") {
		s.t.Errorf("the mail is to another:\n%s", mail)
	}
}

// standStill pauses an engine until others have taken over its work, and then resumes it.
func (s *site) standStill(p *paying, r *role) []time.Time {
	s.t.Helper()
	stopped := time.Now()
	r.signal(syscall.SIGSTOP)
	s.flowing(p, time.Now())
	r.signal(syscall.SIGCONT)
	r.untilReady()
	return []time.Time{stopped}
}

func (s *site) restartAll() {
	s.t.Helper()
	for _, r := range s.order {
		began := time.Now()
		r.terminate()
		ended := time.Now()
		s.again(r)
		s.t.Logf("%s: ended in %.1f s, ready %.1f s later", r.name,
			ended.Sub(began).Seconds(), time.Since(ended).Seconds())
	}
}
