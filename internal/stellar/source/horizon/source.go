package horizon

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Bounds and defaults of a source.
const (
	pageSizeDefault = 20  // ledgers
	listSizeMax     = 200 // records, the most that Horizon gives
	pagesMax        = 2000
)

// Config says which server to ask, and how.
type Config struct {
	URL          string
	Passphrase   string        // of the network that the server must serve
	Trust        source.Trust  // in what it gives
	HTTPClient   *http.Client  // one of our own when nil
	Logger       *slog.Logger  // silent when nil
	PollInterval time.Duration // between looks at the tip; 1 s when 0
	BackoffMax   time.Duration // longest wait after repeated failures; 15 s when 0
	PageSize     int           // ledgers read at once; 20 when 0, 200 at most
}

// Source reads ledgers in order. It is for one goroutine.
type Source struct {
	config Config
	client *client
	poll   *source.Poll
}

// New makes a source. It asks the server nothing yet.
func New(config Config) (*Source, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	if config.PageSize < 0 || config.PageSize > listSizeMax {
		return nil, fmt.Errorf("horizon: the page size is %d: set 1 to %d ledgers", config.PageSize,
			listSizeMax)
	}
	config.PageSize = cmp.Or(config.PageSize, pageSizeDefault)
	poll, err := source.NewPoll(source.Poll{
		Kind:       "horizon",
		Name:       "Horizon",
		Server:     c.base.Host,
		Passphrase: config.Passphrase,
		Trust:      config.Trust,
		Interval:   config.PollInterval,
		BackoffMax: config.BackoffMax,
		Log:        config.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Source{config: config, client: c, poll: poll}, nil
}

// root is what the server says about itself.
type root struct {
	Passphrase string    `json:"network_passphrase"`
	Oldest     uint32    `json:"history_elder_ledger"`
	Latest     uint32    `json:"history_latest_ledger"`
	ClosedAt   time.Time `json:"history_latest_ledger_closed_at"`
}

func (c *client) root(ctx context.Context) (r root, err error) {
	err = c.get(ctx, "/", nil, &r)
	if err == nil && r.Latest == 0 {
		err = fmt.Errorf("the Horizon at %s has no ledger yet", c.base.Host)
	}
	return r, err
}

// Check asks once whether the server is there and serves our network.
func (s *Source) Check(ctx context.Context) error {
	r, err := s.client.root(ctx)
	if err != nil {
		return err
	}
	if r.Passphrase != s.config.Passphrase {
		return fmt.Errorf("%w: the Horizon at %s serves %q, but %q is to be followed: set the URL of a "+
			"server of that network, or the other passphrase (with data and topics of its own)",
			domain.ErrWrongNetwork, s.client.base.Host, r.Passphrase, s.config.Passphrase)
	}
	return nil
}

// Latest asks once for the sequence of the newest ledger.
func (s *Source) Latest(ctx context.Context) (uint32, error) {
	r, err := s.client.root(ctx)
	return r.Latest, err
}

// Report asks once what the server has.
func (s *Source) Report(ctx context.Context) (source.Report, error) {
	r, err := s.client.root(ctx)
	return source.Report{Oldest: r.Oldest, Latest: r.Latest, ClosedAt: r.ClosedAt}, err
}

// Continue tells the source which ledger was read last: the next must follow it.
func (s *Source) Continue(sequence uint32, hash string) { s.poll.Continue(sequence, hash) }

// Next waits until the ledger with this sequence is there and returns it
// and those after it that are there too, at most a page. It fails only for what
// waiting does not help.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	return s.poll.Next(ctx, sequence, func() ([]ledger.Raw, error) { return s.Look(ctx, sequence) })
}

// Look looks once: see source.Looker.
func (s *Source) Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	page, err := s.headers(ctx, sequence)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	if err := s.fill(ctx, page); err != nil {
		return nil, err
	}
	return page, nil
}

// Witness is a Source that looks for the hashes of ledgers, and for none of the payments in them.
type Witness struct{ *Source }

// Look looks once: see source.Looker. What it gives has no payments.
func (w Witness) Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	return w.headers(ctx, sequence)
}

// ledgers is a page of the list of ledgers.
type ledgers struct {
	Embedded struct {
		Records []struct {
			Sequence   uint32    `json:"sequence"`
			Hash       string    `json:"hash"`
			Previous   string    `json:"prev_hash"`
			ClosedAt   time.Time `json:"closed_at"`
			Successful int       `json:"successful_transaction_count"`
			Failed     int       `json:"failed_transaction_count"`
		} `json:"records"`
	} `json:"_embedded"`
}

// headers gives ledgers without their payments, once.
func (s *Source) headers(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	var got ledgers
	query := list(uint64(sequence-1)<<32, s.config.PageSize)
	if err := s.client.get(ctx, "/ledgers", query, &got); err != nil {
		return nil, err
	}
	records := got.Embedded.Records
	if len(records) == 0 {
		return nil, nil
	}
	if first := records[0].Sequence; first > sequence {
		return nil, s.gap(ctx, sequence, first)
	}
	var page []ledger.Raw
	for _, r := range records {
		page = append(page, ledger.Raw{
			Sequence:     r.Sequence,
			Hash:         r.Hash,
			PreviousHash: r.Previous,
			Ledger: &domain.Ledger{
				Sequence:       r.Sequence,
				Hash:           r.Hash,
				ClosedAtMillis: r.ClosedAt.UnixMilli(),
				Transactions:   r.Successful + r.Failed,
			},
		})
	}
	return s.poll.Fitting(page, sequence, "the Horizon at "+s.client.base.Host)
}

// gap tells a history that begins later from a hole in it.
func (s *Source) gap(ctx context.Context, sequence, first uint32) error {
	r, err := s.client.root(ctx)
	if err != nil {
		return err
	}
	if sequence < r.Oldest {
		return fmt.Errorf("%w: ledger %d is wanted, but the history of the Horizon at %s begins at %d: "+
			"follow a server that keeps more, or start there and miss the payments in between",
			domain.ErrBehindRetention, sequence, s.client.base.Host, r.Oldest)
	}
	return fmt.Errorf("the Horizon at %s gave ledger %d where %d is due", s.client.base.Host, first,
		sequence)
}

// fill puts the payments into the ledgers they are in.
func (s *Source) fill(ctx context.Context, page []ledger.Raw) error {
	first, last := page[0].Sequence, page[len(page)-1].Sequence
	cursor := uint64(first) << 32
	for range pagesMax {
		var got payments
		query := list(cursor, listSizeMax)
		query.Set("join", "transactions")
		if err := s.client.get(ctx, "/payments", query, &got); err != nil {
			return err
		}
		for _, r := range got.Embedded.Records {
			id, err := strconv.ParseUint(r.ID, 10, 63)
			if err != nil || id <= cursor {
				return fmt.Errorf("the Horizon at %s listed payment %.40q after %d", s.client.base.Host, r.ID,
					cursor)
			}
			cursor = id
			sequence := uint32(id >> 32)
			if sequence > last {
				return nil
			}
			add(page[sequence-first].Ledger, r)
		}
		if len(got.Embedded.Records) < listSizeMax {
			return nil
		}
	}
	return fmt.Errorf("the Horizon at %s lists more than %d pages of payments for %d ledgers",
		s.client.base.Host, pagesMax, len(page))
}

// add reads a record into its ledger. One that cannot be read is quarantined.
func add(l *domain.Ledger, r record) {
	found, err := r.payments(*l)
	if err != nil {
		id, _ := strconv.ParseUint(r.ID, 10, 63)
		l.Quarantined = append(l.Quarantined, domain.QuarantinedTransaction{
			TxHash: r.TxHash[:min(len(r.TxHash), hashSize)],
			Order:  int(id >> 12 & (1<<20 - 1)),
			Reason: err.Error(),
		})
		l.Payments = without(l.Payments, r.TxHash)
		return
	}
	for _, q := range l.Quarantined {
		if q.TxHash == r.TxHash {
			return // none of a transaction's payments is reported, or all
		}
	}
	l.Payments = append(l.Payments, found...)
}

func without(payments []domain.Payment, txHash string) (kept []domain.Payment) {
	for _, p := range payments {
		if p.TxHash != txHash {
			kept = append(kept, p)
		}
	}
	return kept
}

func list(cursor uint64, limit int) url.Values {
	return url.Values{
		"order":  {"asc"},
		"cursor": {strconv.FormatUint(cursor, 10)},
		"limit":  {strconv.Itoa(limit)},
	}
}
