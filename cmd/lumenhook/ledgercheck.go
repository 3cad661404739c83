package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/connect"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/ledger"
)

// recordedMax bounds the payments of a range that are held in memory.
const recordedMax = 5_000_000

// ledgerCheck is `lumenhook ledger check`.
type ledgerCheck struct {
	from, to uint32
	service  connect.Service
	cluster  streams.Cluster
	source   sourceSettings
}

func newLedgerCheck() *cobra.Command {
	var k ledgerCheck
	c := &cobra.Command{
		Use:   "check --from LEDGER --to LEDGER",
		Short: "Read ledgers again, and name what would now be seen differently",
		Long: `Reads a range of ledgers again with this program, holds the payments in it
against those that were observed when it was followed, and prints each difference:
what would now be seen, what no longer is, and what is not the same. Nothing is
changed. Use it after moving to a newer lumenhook, and when a transaction was
quarantined. What would now be seen is delivered by the backfill of a new watch:
the former one has been over its ledger.

The topics are those of a running service (--data-dir), or of --kafka-brokers;
without flags for a source, its development network is read. With differences the
command ends with 3.`,
		Example: "  lumenhook ledger check --from 63092000 --to 63093000 --kafka-brokers kafka:9092 --stellar-rpc-url https://…",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := k.settle(); err != nil {
				return err
			}
			return k.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.Uint32Var(&k.from, "from", 0, "first ledger")
	f.Uint32Var(&k.to, "to", 0, "last ledger")
	k.service.Register(f)
	k.service.RegisterKafka(f)
	k.source.register(f, "pubnet")
	_ = c.MarkFlagRequired("from")
	_ = c.MarkFlagRequired("to")
	return c
}

// settle fills in what a running service knows.
func (k *ledgerCheck) settle() error {
	if k.from == 0 || k.to < k.from {
		return cli.Usage(fmt.Errorf("--from %d --to %d: must be the sequences of ledgers, the first not above the last", k.from, k.to))
	}
	var err error
	k.cluster, err = k.service.Cluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if len(k.service.Kafka.Brokers) == 0 && k.source.kind == sourceRPC && len(k.source.rpcURLs) == 0 {
		run, err := runfile.Read(k.service.DataDir)
		if err != nil {
			return err
		}
		k.source.rpcURLs, k.source.network = []string{run.Stellar.RPCURL}, run.Stellar.NetworkPassphrase
	}
	return cli.Usage(k.source.check())
}

func (k *ledgerCheck) run(ctx context.Context, out io.Writer) error {
	log := slog.New(slog.DiscardHandler)
	known, err := k.readTopics(ctx, k.cluster)
	if err != nil {
		return err
	}
	source, err := k.source.open(log)
	if err != nil {
		return err
	}
	if err := source.Check(ctx); err != nil {
		return err
	}
	latest, err := source.Latest(ctx)
	if err != nil {
		return err
	}
	if latest < k.to {
		return fmt.Errorf("--to %d: the source reaches to ledger %d", k.to, latest)
	}
	differences, err := k.reread(ctx, source, known, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d ledgers read again, %d payments were observed in them, %d differences\n", k.to-k.from+1, known.count, differences)
	if known.leftOut > 0 {
		fmt.Fprintf(out, "%d records of the topics payments and watches do not count and were left out: lumenhook topics cat dead-letters\n", known.leftOut)
	}
	if differences > 0 {
		return cli.Differs(fmt.Errorf("%d differences", differences))
	}
	return nil
}

// known is what the topics say of the range.
type known struct {
	payments map[string]domain.Payment
	wallets  map[string]int64 // watched, and since when (Unix milliseconds)
	count    int
	leftOut  int // records that do not count
}

func (k *ledgerCheck) readTopics(ctx context.Context, cluster streams.Cluster) (known, error) {
	all := known{payments: map[string]domain.Payment{}, wallets: map[string]int64{}}
	err := readTopic(ctx, cluster, schemas.TopicPayments, func(r streams.Record) error {
		observed, err := intake.Payment(r)
		if err != nil {
			return all.leaveOut(err)
		}
		if p := observed.Payment; p.Ledger >= k.from && p.Ledger <= k.to {
			all.payments[p.ID] = p
			if len(all.payments) > recordedMax {
				return fmt.Errorf("more than %d payments were observed between --from and --to: check in smaller ranges", recordedMax)
			}
		}
		return nil
	})
	if err != nil {
		return all, err
	}
	all.count = len(all.payments)
	return all, readTopic(ctx, cluster, schemas.TopicWatches, func(r streams.Record) error {
		w, gone, err := intake.Watch(r)
		if err != nil {
			return all.leaveOut(err)
		}
		if since, ok := all.wallets[w.WalletAddress]; !gone && (!ok || w.CreatedAtMillis < since) {
			all.wallets[w.WalletAddress] = w.CreatedAtMillis
		}
		return nil
	})
}

// leaveOut counts a record that does not count, as all who read these topics leave it
// out. One of a newer program is not left out.
func (k *known) leaveOut(why error) error {
	if errors.Is(why, schemas.ErrNewer) {
		return why
	}
	k.leftOut++
	return nil
}

// readTopic gives every record of a topic to take.
func readTopic(ctx context.Context, cluster streams.Cluster, topic string, take func(streams.Record) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	ends, err := cluster.NewEnds()
	if err != nil {
		return err
	}
	defer ends.Close()
	until, err := ends.Of(ctx, topic)
	if err != nil {
		return err
	}
	starts, err := ends.Starts(ctx, topic)
	if err != nil {
		return err
	}
	reader, err := cluster.NewReader(streams.ReaderConfig{From: streams.Offsets{topic: starts}, SkipExpired: true})
	if err != nil {
		return err
	}
	defer reader.Close()
	err = reader.ReadTo(ctx, topic, until, pollRecords, take)
	if err != nil {
		return fmt.Errorf("reading the topic %q: %w", topic, err)
	}
	return nil
}

// reread prints the differences of each ledger, and counts them.
func (k *ledgerCheck) reread(ctx context.Context, source ledger.Source, all known, out io.Writer) (differences int, err error) {
	e, err := ledger.NewExtractor(k.source.passphrase)
	if err != nil {
		return 0, err
	}
	for next := k.from; next <= k.to; {
		page, err := source.Next(ctx, next)
		if err != nil {
			return differences, err
		}
		for _, raw := range page[:min(len(page), int(k.to-next)+1)] {
			l, err := e.Read(raw)
			if err != nil {
				return differences, fmt.Errorf("ledger %d: %w", raw.Sequence, err)
			}
			for _, line := range all.differences(l) {
				differences++
				if _, err := fmt.Fprintln(out, line); err != nil {
					return differences, err
				}
			}
		}
		next += uint32(len(page))
	}
	for _, id := range sortedIDs(all.payments) {
		p := all.payments[id]
		differences++
		if _, err := fmt.Fprintf(out, "ledger %d: payment %s to %s was observed, and is no longer seen\n", p.Ledger, id, p.To); err != nil {
			return differences, err
		}
	}
	return differences, nil
}

// differences takes the ledger's payments out of what is known.
func (k known) differences(l ledger.Ledger) (lines []string) {
	for _, q := range l.Quarantined {
		lines = append(lines, fmt.Sprintf("ledger %d: transaction %s cannot be read: %s", l.Sequence, q.TxHash, q.Reason))
	}
	for _, p := range l.Payments {
		before, observed := k.payments[p.ID]
		delete(k.payments, p.ID)
		since, watched := k.wallets[p.To]
		switch {
		case observed && !reflect.DeepEqual(domain.ViewPayment(before), domain.ViewPayment(p)):
			lines = append(lines, fmt.Sprintf("ledger %d: payment %s is seen differently: %s", p.Ledger, p.ID, strings.Join(fieldsThatDiffer(before, p), ", ")))
		case !observed && watched && since <= p.ClosedAtMillis && p.AmountStroops > 0 && !p.PaysOneself():
			lines = append(lines, fmt.Sprintf("ledger %d: payment %s to %s would now be seen: %s %s; to deliver it, "+
				"make a new watch of the wallet and run lumenhook backfill --watch NEW --from %d --to %d",
				p.Ledger, p.ID, p.To, domain.FormatAmount(p.AmountStroops), p.Asset, p.Ledger, p.Ledger))
		}
	}
	return lines
}

// fieldsThatDiffer names what an event would show otherwise, before and now.
func fieldsThatDiffer(before, now domain.Payment) (fields []string) {
	b, n := reflect.ValueOf(domain.ViewPayment(before)), reflect.ValueOf(domain.ViewPayment(now))
	for i := range b.NumField() {
		if was, is := asJSON(b.Field(i)), asJSON(n.Field(i)); was != is {
			fields = append(fields, fmt.Sprintf("%s %s is now %s", b.Type().Field(i).Tag.Get("json"), was, is))
		}
	}
	return fields
}

// asJSON shows a field as an event does: null where there is none.
func asJSON(field reflect.Value) string {
	text, err := json.Marshal(field.Interface())
	if err != nil {
		panic("ledger check: " + err.Error()) // of a struct of texts and numbers
	}
	return string(text)
}

func sortedIDs(payments map[string]domain.Payment) (ids []string) {
	for id := range payments {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(payments[a].Ledger, payments[b].Ledger), strings.Compare(a, b))
	})
	return ids
}

// noLookup stands for a source that knows no accounts: nothing can be warned of.
type noLookup struct{}

func (noLookup) Warnings(context.Context, string, []domain.Asset) []string { return []string{} }
