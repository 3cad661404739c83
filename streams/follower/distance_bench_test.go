package follower_test

import (
	"crypto/rand"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/streams/follower"
)

const (
	farLedgers   = 20_000
	farRoundTrip = 80 * time.Millisecond
)

// BenchmarkFarCatchUp follows one chain from its beginning over RPC. It alternates between a proxy
// without delay, which is the baseline, and a proxy with a round trip of 80 ms.
//
//	make bench LINES=catchup
func BenchmarkFarCatchUp(b *testing.B) {
	r := newRig(b)
	c := r.busyChain()
	for c.last < farLedgers {
		last, err := c.network.CloseNow()
		if err != nil {
			b.Fatal(err)
		}
		c.last = last
	}
	server := strings.TrimPrefix(c.network.RPCURL(), "http://")
	near, far := delayed(b, server, 0), delayed(b, server, farRoundTrip/2)
	var nearSeconds, farSeconds float64
	for b.Loop() {
		nearSeconds += c.catchUp(r, near)
		farSeconds += c.catchUp(r, far)
	}
	ledgers := float64(b.N) * float64(c.last-1)
	b.ReportMetric(ledgers/nearSeconds, "floor-ledgers/s")
	b.ReportMetric(ledgers/farSeconds, "ledgers/s")
	b.ReportMetric(0, "ns/op")
}

// catchUp follows the complete chain as served at an address, and returns how long that took.
func (c *busyChain) catchUp(r *rig, address string) (seconds float64) {
	r.t.Helper()
	r.renew("catch-up-" + rand.Text())
	from, err := rpc.New(rpc.Config{URL: "http://" + address, Passphrase: c.network.Passphrase()})
	if err != nil {
		r.t.Fatal(err)
	}
	config := r.config()
	config.Passphrase = c.network.Passphrase()
	config.Source = reader(r.t, from, config.Passphrase)
	config.Start = follower.Start{Sequence: 2}
	x := r.startReady(config)
	began := time.Now()
	x.until(c.last)
	seconds = time.Since(began).Seconds()
	if err := x.stopped(); err != nil {
		r.t.Fatal(err)
	}
	return seconds
}

// delayed returns the address of a proxy that delays all traffic to and from a server without
// limiting throughput.
func delayed(t testing.TB, server string, delay time.Duration) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				return
			}
			t.Cleanup(func() { near.Close(); far.Close() })
			open.Go(func() { passLater(far, near, delay) })
			open.Go(func() { passLater(near, far, delay) })
		}
	})
	return listener.Addr().String()
}

// passLater forwards each piece of data after the delay.
func passLater(to, from net.Conn, delay time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	held := make(chan piece, 4096)
	go func() {
		defer close(held)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			if n > 0 {
				held <- piece{time.Now().Add(delay), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range held {
		<-time.After(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	for range held { // lets the reader end
		continue
	}
}
