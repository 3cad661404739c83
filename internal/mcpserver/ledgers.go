package mcpserver

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lumenhook/lumenhook/api/client"
)

type statementFilter struct {
	Wallet string `json:"walletAddress" jsonschema:"the watched wallet (G…)"`
	Asset  string `json:"asset,omitempty" jsonschema:"only this balance: XLM, CODE:ISSUER or pool:ID"`
	From   string `json:"from,omitempty" jsonschema:"the first ledger, or a time, or how long ago, such as 24h"`
	To     string `json:"to,omitempty" jsonschema:"the last ledger, or a time, or how long ago"`
	page
}

func (s *server) addLedgers(to *mcp.Server) {
	add(to, "wallet_statement", "Shows a watched wallet's balances before and after, and every move between "+
		"them, oldest first: payments with their events, or why each watch did not take one. What is "+
		"unexplained is not 0.0000000 only if something was missed. "+untrustedNote, s.statement)
	add(to, "coverage", "Shows which ledgers were read and verified, whether there is a gap, and how far the "+
		"service is. A payment of a ledger that was not read yet has no event.", s.coverage)
}

func (s *server) statement(ctx context.Context, in statementFilter) (*answer, error) {
	p, err := in.page.page()
	f := client.StatementFilter{Asset: in.Asset}
	var fromErr, toErr error
	f.FromLedger, f.From, fromErr = bound("from", in.From)
	f.ToLedger, f.To, toErr = bound("to", in.To)
	if err := errors.Join(err, fromErr, toErr); err != nil {
		return nil, err
	}
	read, err := s.API.GetStatement(ctx, in.Wallet, f, p)
	return &answer{Result: read}, err
}

// bound reads a ledger, or a time.
func bound(name, text string) (ledger uint32, at time.Time, err error) {
	if n, isNumber := strconv.ParseUint(text, 10, 31); isNumber == nil && n > 0 {
		return uint32(n), at, nil
	}
	at, err = instant(name, text)
	return 0, at, err
}

func (s *server) coverage(ctx context.Context, _ struct{}) (*answer, error) {
	read, err := s.API.GetCoverage(ctx)
	return &answer{Result: read}, err
}
