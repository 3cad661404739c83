package engine_test

import (
	"fmt"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// mostRecordBytes is a broker's limit for one record (max.message.bytes), less the overhead of a
// batch. A turn that writes a larger record can never succeed.
const mostRecordBytes = 1_000_000

// long returns a text of n bytes that is different for each number.
func long(n, number int) string {
	return fmt.Sprintf("%0*d", n, number)
}

func many[T any](n int, of func(int) T) (all []T) {
	for i := range n {
		all = append(all, of(i))
	}
	return all
}

// Anyone who can write to the topic can send commands beyond the API's own limits. Even with the
// largest commands, and as many as an aggregate accepts, every record of a turn must fit the
// brokers' limit.
func TestNoAggregateOutgrowsARecord(t *testing.T) {
	t.Parallel()
	for what, grow := range map[string]func(*growing){
		"an endpoint": growEndpoint, "an account": growAccount, "a watch": growWatch,
	} {
		t.Run(what, func(t *testing.T) {
			g := &growing{core: newCore(t)}
			grow(g)
			if g.largest > mostRecordBytes || g.largest < mostRecordBytes/4 {
				t.Errorf("the largest record has %d bytes", g.largest)
			}
		})
	}
}

// growing makes an aggregate as large as possible.
type growing struct {
	*core
	commands int
	largest  int // largest written record, in bytes
}

// most finds the largest command that is accepted.
func (g *growing) most(size, step int, of func(size int) domain.CommandBody) int {
	g.t.Helper()
	for ; size > 0; size -= step {
		if g.takes(of(size)) {
			return size
		}
	}
	g.t.Fatal("a command of no size is taken")
	return 0
}

func (g *growing) takes(body domain.CommandBody) bool {
	g.t.Helper()
	g.commands++
	out := g.outputOf(commandRecord(domain.Command{
		ID:        fmt.Sprintf("cmd_%d", g.commands),
		AccountID: accountID,
		BodyHash:  []byte(long(64, g.commands)),
		Body:      body,
	}))
	for _, r := range out {
		g.largest = max(g.largest, recordBytes(r))
	}
	return len(deadLetters(g.t, out)) == 0
}

func growEndpoint(g *growing) {
	text := long(16<<10, 0)
	g.takes(domain.CreateEndpoint{
		EndpointID:       endpointID,
		AccountID:        accountID,
		EndpointSettings: domain.EndpointSettings{URL: text},
		SealedSecret:     []byte(secret),
	})
	g.takes(domain.UpdateEndpoint{
		EndpointID: endpointID,
		Change:     domain.EndpointChange{Description: &text},
	})
	headers := g.most(200, 1, func(count int) domain.CommandBody {
		headers := many(count, func(n int) domain.Header {
			return domain.Header{Name: "h" + long(1000, n), Sealed: []byte(long(4, n))}
		})
		return domain.UpdateEndpoint{
			EndpointID: endpointID,
			Change:     domain.EndpointChange{Headers: &headers},
		}
	})
	rotation := func(n int) func(size int) domain.CommandBody {
		return func(size int) domain.CommandBody {
			return domain.RotateSecret{EndpointID: endpointID, SealedSecret: []byte(long(size, n))}
		}
	}
	size := g.most(16<<10, 512, rotation(0))
	for n := range domain.MaxSecrets {
		g.takes(rotation(n)(size))
	}
	for n := range headers {
		g.takes(domain.ResealSecrets{EndpointID: endpointID, Values: []domain.Resealed{
			{Was: []byte(long(4, n)), Sealed: []byte(long(size, n))},
		}})
	}
}

func growAccount(g *growing) {
	key := func(n int) domain.Key {
		return domain.Key{
			ID:           fmt.Sprintf("key_%d", n),
			Name:         long(1<<10, n),
			Hash:         []byte(long(64, n)),
			Permissions:  many(16, func(i int) domain.Permission { return domain.Permission(long(64, i)) }),
			AllowedCIDRs: many(100, func(i int) string { return long(64, i) }),
		}
	}
	g.takes(domain.CreateAccount{AccountID: accountID, Email: long(1<<10, 0), Key: key(0)})
	for n := range domain.MaxKeys {
		g.takes(domain.CreateKey{AccountID: accountID, Key: key(n + 1)})
	}
}

func growWatch(g *growing) {
	text := long(16<<10, 0)
	g.takes(domain.CreateWatch{Watch: goodWatch()})
	g.most(2000, 10, func(count int) domain.CommandBody {
		assets := many(count,
			func(n int) domain.Asset { return domain.Asset{Code: long(128, n), Issuer: long(128, n)} })
		return domain.UpdateWatch{
			WatchID: watchID,
			Change:  domain.WatchChange{Label: &text, Assets: &assets},
		}
	})
	g.most(5000, 10, func(count int) domain.CommandBody {
		senders := many(count, func(n int) string { return long(128, n) })
		return domain.UpdateWatch{WatchID: watchID, Change: domain.WatchChange{SenderAllowlist: &senders}}
	})
}

// recordBytes returns an upper bound of a record's size in a batch.
func recordBytes(r kafka.Record) int {
	n := len(r.Topic) + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n + 64
}
