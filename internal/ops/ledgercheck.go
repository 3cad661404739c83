package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// recordedMax bounds the payments of a range in memory.
	recordedMax = 5_000_000
	// readTimeout bounds the reading of one topic.
	readTimeout = time.Hour
)

// LedgerCheck says which ledgers are read again. All fields are required.
type LedgerCheck struct {
	From, To uint32 // sequences of ledgers, the last one included
	Cluster  kafka.Cluster
	Source   follower.Source
	Out      io.Writer
}

// Run prints each difference and a summary, and counts the differences.
func (c LedgerCheck) Run(ctx context.Context) (differences int, err error) {
	known, err := c.readTopics(ctx)
	if err != nil {
		return 0, err
	}
	if err := c.Source.Check(ctx); err != nil {
		return 0, err
	}
	latest, err := c.Source.Latest(ctx)
	if err != nil {
		return 0, err
	}
	if latest < c.To {
		return 0, fmt.Errorf("--to %d: the source reaches to ledger %d", c.To, latest)
	}
	if differences, err = c.reread(ctx, &known); err != nil {
		return differences, err
	}
	fmt.Fprintf(c.Out, "%d ledgers read again, %d payments were observed in them, %d differences\n",
		c.To-c.From+1, known.count, differences)
	if known.older > 0 {
		fmt.Fprintf(c.Out, "%d payments not compared, because the topics no longer have payments before "+
			"ledger %d: lumenhook explain TX shows them\n", known.older, known.begins)
	}
	if known.leftOut > 0 {
		fmt.Fprintf(c.Out, "%d records of the topics payments and watches do not count "+
			"and were left out: lumenhook topics cat dead-letters\n", known.leftOut)
	}
	return differences, nil
}

// knownPayments holds the payments of the range according to the topics.
type knownPayments struct {
	payments map[string]domain.Payment
	watches  map[string][]domain.Watch // by wallet
	count    int
	leftOut  int    // invalid records
	begins   uint32 // first recorded ledger, if retention or a move removed older records
	older    int    // payments before that ledger
}

func (c LedgerCheck) readTopics(ctx context.Context) (knownPayments, error) {
	all := knownPayments{payments: map[string]domain.Payment{}}
	firsts := make(map[int32]uint32)
	err := c.readTopic(ctx, schemas.TopicPayments, func(r kafka.Record) error {
		if schemas.IsBalanceMoved(r) {
			return nil
		}
		observed, err := intake.Payment(r)
		if err != nil {
			return all.leaveOut(err)
		}
		if ledger := observed.Payment.Ledger; firsts[r.Partition] == 0 || ledger < firsts[r.Partition] {
			firsts[r.Partition] = ledger
		}
		if p := observed.Payment; p.Ledger >= c.From && p.Ledger <= c.To {
			all.payments[p.ID] = p
			if len(all.payments) > recordedMax {
				return fmt.Errorf("more than %d payments were observed between --from and --to: "+
					"check in smaller ranges", recordedMax)
			}
		}
		return nil
	})
	if err != nil {
		return all, err
	}
	all.count = len(all.payments)
	if all.begins, err = c.beginning(ctx, firsts); err != nil {
		return all, err
	}
	rows := make(map[string]domain.Watch) // by id
	err = c.readTopic(ctx, schemas.TopicWatches, func(r kafka.Record) error {
		w, gone, err := intake.Watch(r)
		if err != nil {
			return all.leaveOut(err)
		}
		delete(rows, string(r.Key))
		if !gone {
			rows[w.ID] = w
		}
		return nil
	})
	all.watches = make(map[string][]domain.Watch)
	for _, w := range rows {
		all.watches[w.WalletAddress] = append(all.watches[w.WalletAddress], w)
	}
	return all, err
}

// beginning returns the ledger before which payments may be missing in the topics, or 0. Retention
// deletes the beginnings of partitions, and topics that were filled by a restore or a repartition
// have a journal that begins late. firsts are the first ledgers by partition. A partition without
// payments says nothing: its payments are reported rather than hidden.
func (c LedgerCheck) beginning(
	ctx context.Context, firsts map[int32]uint32,
) (ledger uint32, err error) {
	starts, _, err := c.Cluster.Extent(ctx, schemas.TopicPayments)
	if err != nil {
		return 0, err
	}
	for p, first := range firsts {
		if starts[p] > 0 {
			ledger = max(ledger, first)
		}
	}
	journal, _, err := c.Cluster.Extent(ctx, schemas.TopicJournal)
	if err != nil {
		return 0, err
	}
	for _, start := range journal {
		if start > 0 && ledger == 0 && len(firsts) > 0 {
			ledger = slices.Min(slices.Collect(maps.Values(firsts)))
		}
	}
	return ledger, nil
}

// leaveOut counts an invalid record, which all readers of these topics skip. A record of a newer
// program is an error.
func (k *knownPayments) leaveOut(why error) error {
	if errors.Is(why, schemas.ErrNewer) {
		return why
	}
	k.leftOut++
	return nil
}

// readTopic gives every record of a topic to take.
func (c LedgerCheck) readTopic(
	ctx context.Context, topic string, take func(kafka.Record) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	starts, ends, err := c.Cluster.Extent(ctx, topic)
	if err != nil {
		return err
	}
	err = c.Cluster.ReadBetween(ctx, topic, starts, ends, pollRecords, take)
	if err != nil {
		return fmt.Errorf("reading the topic %q: %w", topic, err)
	}
	return nil
}

// reread prints the differences of each ledger, and counts them.
func (c LedgerCheck) reread(ctx context.Context, all *knownPayments) (differences int, err error) {
	for next := c.From; next <= c.To; {
		page, err := c.Source.Next(ctx, next)
		if err != nil {
			return differences, err
		}
		for _, l := range page[:min(len(page), int(c.To-next)+1)] {
			for _, line := range all.differences(l) {
				differences++
				if _, err := fmt.Fprintln(c.Out, line); err != nil {
					return differences, err
				}
			}
		}
		next += uint32(len(page))
	}
	for _, id := range sortedIDs(all.payments) {
		p := all.payments[id]
		differences++
		_, err := fmt.Fprintf(c.Out, "ledger %d: payment %s to %s was observed, "+
			"and is no longer seen\n", p.Ledger, id, p.To)
		if err != nil {
			return differences, err
		}
	}
	return differences, nil
}

// differences removes the ledger's payments from the known ones, and reports differences.
func (k *knownPayments) differences(l domain.Ledger) (lines []string) {
	for _, q := range l.Quarantined {
		lines = append(lines, fmt.Sprintf("ledger %d: transaction %s cannot be read: %s",
			l.Sequence, q.TxHash, q.Reason))
	}
	for _, p := range l.Payments {
		before, observed := k.payments[p.ID]
		delete(k.payments, p.ID)
		switch {
		case observed && !reflect.DeepEqual(domain.ViewPayment(before), domain.ViewPayment(p)):
			lines = append(lines, fmt.Sprintf("ledger %d: payment %s is seen differently: %s",
				p.Ledger, p.ID, strings.Join(fieldsThatDiffer(before, p), ", ")))
		case observed:
		default:
			if watching := k.watching(p); len(watching) > 0 && p.Ledger < k.begins {
				k.older++
			} else if len(watching) > 0 {
				lines = append(lines, fmt.Sprintf("ledger %d: payment %s to %s was not observed: %s %s; "+
					"to deliver it, run lumenhook backfill --watch %s --from %d --to %d", p.Ledger, p.ID,
					p.To, domain.FormatAmount(p.AmountStroops), p.Asset,
					strings.Join(watching, ", then --watch "), p.Ledger, p.Ledger))
			}
		}
	}
	return lines
}

// watching returns the ids of the watches that a payment should have been matched against. A
// backfill of these watches creates the same event ids again, so it never delivers a payment under
// a second id.
func (k *knownPayments) watching(p domain.Payment) (ids []string) {
	if p.AmountStroops <= 0 || p.IsSelfPayment() {
		return nil
	}
	for _, w := range k.watches[p.To] {
		backfilled := len(w.Covered.Missing(domain.Range{From: p.Ledger, To: p.Ledger})) == 0
		if backfilled || w.LiveSince > 0 && w.LiveSince <= p.Ledger {
			ids = append(ids, w.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// fieldsThatDiffer lists the fields in which an event would differ, before and now.
func fieldsThatDiffer(before, now domain.Payment) (fields []string) {
	b, n := reflect.ValueOf(domain.ViewPayment(before)), reflect.ValueOf(domain.ViewPayment(now))
	for i := range b.NumField() {
		if was, is := asJSON(b.Field(i)), asJSON(n.Field(i)); was != is {
			name := b.Type().Field(i).Tag.Get("json")
			fields = append(fields, fmt.Sprintf("%s %s is now %s", name, was, is))
		}
	}
	return fields
}

// asJSON formats a field as in an event: null if it is missing.
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
