package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

const (
	interval  = 500 * time.Millisecond // between looks at the statement
	roundsMax = 5                      // while balances move that never moved before
	// codeBehind is of a statement that is not there yet.
	codeBehind = "HISTORY_BEHIND"
)

// Check compares the balances of one wallet.
type Check struct {
	API      *client.Client
	Accounts source.Accounts
	Source   string // names the source; of an address no more than the host: it may hold a key
	Wallet   string
	Asset    string        // only this balance: XLM, CODE:ISSUER, or pool:ID; empty: all
	Timeout  time.Duration // for the service to read what the source has
}

// Run reads both sides.
func (c Check) Run(ctx context.Context) (Report, error) {
	deadline := time.Now().Add(c.Timeout)
	statement, err := c.statement(ctx, 0, deadline)
	if err != nil {
		return Report{}, err
	}
	asked := c.balances(statement)
	for range roundsMax {
		held, err := c.Accounts.Holdings(ctx, c.Wallet, asked)
		if err != nil {
			return Report{}, err
		}
		since := *statement.RecordedSince
		held.Ledger += domain.ChainBase(since) // the source's number is that on its chain
		if held.Ledger < since {
			return Report{}, fmt.Errorf("the source is behind: %s is at ledger %d, and moves of the wallet "+
				"are recorded since ledger %d: wait until it is there, or name another", c.Source, held.Ledger,
				since)
		}
		if statement, err = c.statement(ctx, held.Ledger, deadline); err != nil {
			return Report{}, err
		}
		if !held.Exists && len(statement.Balances) == 0 {
			return Report{}, fmt.Errorf("in ledger %d %s has no account %s, and no move of it was "+
				"recorded: it was merged into another, or is not there yet", held.Ledger, c.Source, c.Wallet)
		}
		// A balance that moved for the first time was not asked for: a newer ledger is, with it.
		all := c.balances(statement)
		if !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(asked, name) }) {
			return c.report(statement, held), nil
		}
		asked = all
	}
	return Report{}, errors.New("balances that never moved before moved while each was compared: " +
		"name one --asset")
}

// balances are those that the source is asked for.
func (c Check) balances(s client.Statement) []string {
	if c.Asset != "" {
		return []string{c.Asset}
	}
	names := []string{domain.NativeCode}
	for _, b := range s.Balances {
		if b.Asset != domain.NativeCode {
			names = append(names, b.Asset)
		}
	}
	return names
}

// statement waits until the service has read up to a ledger; 0: as far as it has.
func (c Check) statement(
	ctx context.Context, to uint32, deadline time.Time,
) (client.Statement, error) {
	// The balances are those of all pages: the moves are not needed.
	one := client.Page{Limit: 1}
	filter := client.StatementFilter{Asset: c.Asset, ToLedger: to}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		s, err := c.API.GetStatement(ctx, c.Wallet, filter, one)
		var refused *client.Problem
		switch {
		case errors.As(err, &refused) && refused.Code == codeBehind:
		case err != nil:
			return s, err
		case s.ThroughLedger != nil && s.RecordedSince != nil && *s.ThroughLedger >= to:
			return s, nil
		}
		if time.Now().After(deadline) {
			return s, c.late(s, to, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// late says what was waited for in vain.
func (c Check) late(s client.Statement, to uint32, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("after %v the statement is not there: %w", c.Timeout, err)
	case s.ThroughLedger == nil || s.RecordedSince == nil:
		return fmt.Errorf("after %v no watch of the wallet has seen a ledger: does the service follow "+
			"the network (lumenhook coverage)?", c.Timeout)
	}
	return fmt.Errorf("the service is behind: it has read up to ledger %d, and %s is at ledger %d; "+
		"it was waited for %v (lumenhook coverage shows whether it goes on)", *s.ThroughLedger,
		c.Source, to, c.Timeout)
}

func (c Check) report(s client.Statement, held source.Holdings) Report {
	r := Report{
		WalletAddress: s.WalletAddress,
		Source:        c.Source,
		Ledger:        held.Ledger,
		AccountExists: held.Exists,
		RecordedSince: *s.RecordedSince,
		KeptSince:     s.KeptSince,
		Balances:      []Balance{},
	}
	unmoved := maps.Clone(held.Stroops)
	if c.Asset != "" {
		unmoved = map[string]int64{c.Asset: held.Stroops[c.Asset]}
	}
	for _, b := range s.Balances {
		delete(unmoved, b.Asset)
		r.Balances = append(r.Balances, moved(b, held.Stroops[b.Asset]))
	}
	for name, stroops := range unmoved {
		r.Balances = append(r.Balances, Balance{Asset: name, Held: domain.FormatAmount(stroops)})
	}
	slices.SortFunc(r.Balances, func(a, b Balance) int {
		return strings.Compare(place(a.Asset), place(b.Asset))
	})
	return r
}

// place orders balances.
func place(name string) string {
	if name == domain.NativeCode {
		return ""
	}
	return name
}
