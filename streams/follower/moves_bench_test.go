package follower_test

import (
	"fmt"
	"testing"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// BenchmarkBalanceMoves follows one chain in which a watched wallet has moves in every ledger, with
// and without recording them. It reports the processor time per ledger, including the embedded
// broker and the network's server.
//
//	make bench-statement
func BenchmarkBalanceMoves(b *testing.B) {
	r := newRig(b)
	c := r.busyChain()
	run := 0
	for _, moves := range []bool{false, true} {
		b.Run(fmt.Sprintf("recorded=%t", moves), func(b *testing.B) {
			r := *r
			r.t = b
			spent, ledgers, records := 0.0, 0, 0
			for b.Loop() {
				run++
				r.renew(fmt.Sprintf("bench-%d", run))
				from := reader(b, c.rpc(b, c.network.RPCURL()), c.network.Passphrase())
				if moves {
					from.EnableMoves()
				}
				config := r.config()
				config.Passphrase, config.Source = c.network.Passphrase(), from
				config.Start = follower.Start{Sequence: 2}
				began := testkit.ProcessorTime(b)
				x := r.startReady(config)
				ledgers += len(x.until(c.last))
				spent += (testkit.ProcessorTime(b) - began).Seconds()
				if err := x.stopped(); err != nil {
					b.Fatal(err)
				}
				records += len(r.read(schemas.TopicPayments))
			}
			b.ReportMetric(spent*1e6/float64(ledgers), "cpu-µs/ledger")
			b.ReportMetric(float64(records)/float64(ledgers), "records/ledger")
			b.ReportMetric(0, "ns/op")
		})
	}
}
