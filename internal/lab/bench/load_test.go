package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var discarded = slog.New(slog.DiscardHandler)

// payments creates payments to 500 wallets. Each leads to a delivery to one of the endpoints in
// turn. The texts compress as poorly as real ones.
type payments struct {
	account   string
	endpoints []string
}

const label = " of a shop with an address and a street, the third on the left behind the " +
	"fountain, open from seven to seven, but for the holidays of the town, ask for the owner"

func eventID(run string, n int) string { return domain.EventID(run, strconv.Itoa(n)) }

func (p payments) match(run string, n int) kafka.Record {
	m := p.of(run, n)
	message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, time.Now().UnixMilli()))
	return kafka.NewRecord(schemas.TopicMatches, m.Watch.EndpointID, message.Value,
		message.EachHeader)
}

// body returns the request body of the n-th delivery: about 880 bytes of JSON.
func (p payments) body(run string, n int) []byte {
	return domain.NewPaymentEvent(p.of(run, n), time.Now().UnixMilli()).Body
}

func (p payments) of(run string, n int) domain.Match {
	hash := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(run), uint64(n)))
	watch := n % 500
	return domain.Match{
		EventID: eventID(run, n),
		Type:    domain.PaymentReceived,
		Watch: domain.Watch{
			ID:            "wat_" + strconv.Itoa(watch),
			AccountID:     p.account,
			EndpointID:    p.endpoints[n%len(p.endpoints)],
			WalletAddress: address("wallet", watch),
			Label:         "till " + strconv.Itoa(watch) + label,
		},
		Payment: domain.Payment{
			ID:             strconv.Itoa(n),
			TxHash:         hex.EncodeToString(hash[:]),
			Ledger:         uint32(50_000_000 + n/100),
			ClosedAtMillis: time.Now().UnixMilli(),
			Operation:      "payment",
			From:           address("sender", n),
			To:             address("wallet", watch),
			Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte("order " + strconv.Itoa(n))},
			Asset:          domain.NativeAsset(),
			AmountStroops:  int64(1_000_000 + n*7919%50_000_000),
		},
	}
}

// address returns a text that looks like a network address, even to a compressor.
func address(kind string, n int) string {
	sum := sha256.Sum256([]byte(kind + strconv.Itoa(n)))
	return "G" + base32.StdEncoding.EncodeToString(sum[:])[:52] + kind[:3]
}

// receiver answers each webhook with 200 and records when it first arrived.
type receiver struct {
	*sink
	server *httptest.Server
}

func newReceiver(t testing.TB) receiver {
	r := receiver{sink: &sink{}}
	r.server = httptest.NewTLSServer(r.sink)
	t.Cleanup(r.server.Close)
	return r
}

// awaitArrivals waits until n webhooks of this run have arrived, and returns the time of the last
// arrival.
func (l *lab) awaitArrivals(n int) time.Time {
	l.Helper()
	for latest, at := -1, time.Now(); ; {
		got, last := l.arrivals()
		if got >= n {
			return last
		}
		if got > latest {
			latest, at = got, time.Now()
		} else if time.Since(at) > time.Minute {
			l.Fatalf("%d of %d webhooks have arrived, and none for a minute", got, n)
		}
		<-time.After(lookEvery)
	}
}

type full struct {
	atLeast int
	lasts   time.Duration // at least
	ahead   int           // records that may be appended ahead of the arrivals
}

func (s *service) append(run string, how full) (n int) {
	s.Helper()
	const chunk = 2000
	producer := s.producer()
	defer producer.Close()
	for began := time.Now(); n < how.atLeast || time.Since(began) < how.lasts; {
		if n >= how.ahead {
			s.awaitArrivals(n - how.ahead + 1)
		}
		count := chunk
		if n < how.atLeast { // no more than needed, unless the run has to last longer
			count = min(chunk, how.atLeast-n)
		}
		records := make([]kafka.Record, 0, count)
		for range count {
			records = append(records, s.payments.match(run, n))
			n++
		}
		must(s, producer.Append(s.Context(), records...))
	}
	return n
}

type post func(ctx context.Context, id string) error

func (l *lab) bare() post {
	pool := x509.NewCertPool()
	pool.AddCert(l.server.Certificate())
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 1024,
	}}
	l.Cleanup(client.CloseIdleConnections)
	body := payments{account: "acc_1", endpoints: []string{"ep_1"}}.body("bare", 0)
	return func(ctx context.Context, id string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.server.URL+"/0",
			bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Webhook-Id", id)
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}
}

// postUntil posts with 64 senders until enough returns true. It returns the number of posts.
func (l *lab) postUntil(post post, run string, enough func(n int) bool) int {
	l.Helper()
	var next, done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 64)
	for i := range errs {
		all.Go(func() {
			for n := int(next.Add(1) - 1); !enough(n); n = int(next.Add(1) - 1) {
				if errs[i] = post(l.Context(), eventID(run, n)); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	must(l, errors.Join(errs...))
	return int(done.Load())
}

// pace sends at a rate and returns when each was sent. No send waits for another, because a
// delayed send would hide how long the others had to wait.
func (l *lab) pace(rate float64, prepare func(n int) (send func() error)) (sent []time.Time) {
	l.Helper()
	sent = make([]time.Time, int(rate*paceTime.Seconds()))
	errs := make([]error, len(sent))
	places := make(chan struct{}, 4096)
	var all sync.WaitGroup
	began := time.Now()
	for n := range sent {
		send := prepare(n)
		due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		<-time.After(time.Until(due))
		places <- struct{}{}
		all.Go(func() {
			sent[n] = time.Now()
			errs[n] = send()
			<-places
		})
	}
	all.Wait()
	must(l, errors.Join(errs...))
	return sent
}

// percentiles returns the p50 and p99 of durations, in milliseconds.
func percentiles(took []time.Duration) (p50, p99 float64) {
	slices.Sort(took)
	return millis(took[len(took)/2]), millis(took[len(took)*99/100])
}

func (l *lab) tookOf(run string, sent []time.Time) (took []time.Duration) {
	l.Helper()
	for n, at := range sent {
		took = append(took, l.arrival(eventID(run, n)).Sub(at))
	}
	return took
}

func (l *lab) arrival(id string) time.Time {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	at, is := l.arrived[id]
	if !is {
		l.Fatalf("event %s did not arrive", id)
	}
	return at
}
