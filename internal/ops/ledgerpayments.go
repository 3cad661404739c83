package ops

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// LedgerPayments prints the payments in files of ledgers. All fields are required.
type LedgerPayments struct {
	Extractor  *ledger.Extractor
	Passphrase string    // of the extractor's network
	Stdin      io.Reader // read for the file -
	Out        io.Writer // a line of JSON for each payment
	Notes      io.Writer // what cannot be read
}

// paymentLine is a payment as it is printed.
type paymentLine struct {
	ID             string           `json:"id"`
	Operation      string           `json:"operation"`
	TxHash         string           `json:"txHash"`
	Ledger         uint32           `json:"ledger"`
	LedgerClosedAt string           `json:"ledgerClosedAt"`
	From           string           `json:"from"`
	To             string           `json:"to"`
	ToMuxedID      *string          `json:"toMuxedId"`
	Memo           *string          `json:"memo"`
	MemoType       *domain.MemoType `json:"memoType"`
	Asset          domain.AssetView `json:"asset"`
	Amount         string           `json:"amount"`
	AmountStroops  string           `json:"amountStroops"`
}

func lineOf(p domain.Payment) paymentLine {
	v := domain.ViewPayment(p)
	return paymentLine{
		ID:             v.ID,
		Operation:      p.Operation,
		TxHash:         v.TxHash,
		Ledger:         v.Ledger,
		LedgerClosedAt: v.LedgerClosedAt,
		From:           v.From,
		To:             v.To,
		ToMuxedID:      v.ToMuxedID,
		Memo:           v.Memo,
		MemoType:       v.MemoType,
		Asset:          v.Asset,
		Amount:         v.Amount,
		AmountStroops:  v.AmountStroops,
	}
}

// Print stops at the first file that cannot be read, after printing the payments of
// those before it. A transaction that cannot be read is an error after all others.
func (p LedgerPayments) Print(ctx context.Context, files []string) (err error) {
	out := bufio.NewWriter(p.Out)
	defer func() { err = errors.Join(err, out.Flush()) }()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	unread := 0
	for _, file := range files {
		n, err := p.printFile(ctx, file, lines)
		if err != nil {
			return err
		}
		unread += n
	}
	if unread > 0 {
		return fmt.Errorf("%d transactions cannot be read, and what they pay is not printed", unread)
	}
	return nil
}

// printFile counts the transactions that cannot be read.
func (p LedgerPayments) printFile(
	ctx context.Context, file string, lines *json.Encoder,
) (unread int, err error) {
	ledgers, err := readLedgers(file, p.Stdin)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	for _, raw := range ledgers {
		if ctx.Err() != nil {
			return unread, ctx.Err()
		}
		verified, err := ledger.Verify(ledger.Raw{XDR: raw}, p.Passphrase)
		if err != nil {
			return unread, fmt.Errorf("%s: %w", file, err)
		}
		l, err := p.Extractor.Read(verified)
		if err != nil {
			return unread, fmt.Errorf("%s: %w", file, err)
		}
		for _, payment := range l.Payments {
			if err := lines.Encode(lineOf(payment)); err != nil {
				return unread, err
			}
		}
		for _, q := range l.Quarantined {
			fmt.Fprintf(p.Notes, "%s: ledger %d, transaction %d (%s) cannot be read: %s\n",
				file, l.Sequence, q.Order, q.TxHash, q.Reason)
		}
		unread += len(l.Quarantined)
	}
	return unread, nil
}

func readLedgers(file string, stdin io.Reader) ([][]byte, error) {
	if file == "-" {
		return ledger.ReadFile(stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ledger.ReadFile(f)
}
