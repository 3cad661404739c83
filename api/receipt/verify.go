package receipt

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"
)

// Proved lists what a receipt proves.
type Proved struct {
	EventID string      `json:"eventId"`
	Logs    []ProvedLog `json:"logs"`
}

// ProvedLog contains the facts that a receipt proves about one log. Each attempt is a leaf.
type ProvedLog struct {
	Log      Name      `json:"log"`
	Size     int64     `json:"size"`
	Root     tlog.Hash `json:"root"`
	SignedBy []string  `json:"signedBy"` // key ids
	Earlier  *Earlier  `json:"-"`
	Attempts []Attempt `json:"attempts"`
}

// ErrNoReceipt means that the text is not a receipt in a format that this program knows. Nothing
// was verified or refuted.
var ErrNoReceipt = errors.New("not a receipt")

// Verify verifies a receipt against the published keys. Any error except [ErrNoReceipt] refutes the
// receipt.
func Verify(text []byte, keys Keys) (Proved, error) {
	r, err := parse(text)
	if err != nil {
		return Proved{}, err
	}
	p := Proved{EventID: r.EventID, Logs: make([]ProvedLog, len(r.Logs))}
	for i, log := range r.Logs {
		if p.Logs[i], err = log.verify(r.EventID, keys); err != nil {
			return Proved{}, err
		}
	}
	return p, p.countsOnce()
}

// countsOnce returns an error if a log or an attempt occurs twice, or if a log's attempts are out
// of order. Attempts of an event are numbered across all logs.
func (p Proved) countsOnce() error {
	logs, numbers := make(map[Name]bool), make(map[int]bool)
	for _, log := range p.Logs {
		if logs[log.Log] {
			return fmt.Errorf("the log %s occurs twice", log.Log)
		}
		logs[log.Log] = true
		for i, a := range log.Attempts {
			switch {
			case numbers[a.Number]:
				return fmt.Errorf("attempt %d occurs twice", a.Number)
			case i > 0 && (a.Leaf <= log.Attempts[i-1].Leaf || a.Number < log.Attempts[i-1].Number):
				return fmt.Errorf("attempt %d is not in the order of the log %s", a.Number, log.Log)
			}
			numbers[a.Number] = true
		}
	}
	return nil
}

// parse rejects unknown members, because nothing would prove them.
func parse(text []byte) (r Receipt, err error) {
	if len(text) > MaxBytes {
		return r, fmt.Errorf("%w: larger than %d MiB", ErrNoReceipt, MaxBytes>>20)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return r, fmt.Errorf("%w: the file is empty", ErrNoReceipt)
	}
	// This also rejects duplicate names and names in another case: another reader might use the
	// value that was not verified.
	if err := json.Unmarshal(text, &r, json.RejectUnknownMembers(true)); err != nil {
		return r, fmt.Errorf("%w: %w", ErrNoReceipt, err)
	}
	attempts := 0
	for _, log := range r.Logs {
		attempts += len(log.Attempts)
	}
	switch {
	case r.Format != Format:
		return r, fmt.Errorf("%w: unknown format %q (known: %q)", ErrNoReceipt,
			r.Format, Format)
	case attempts == 0:
		return r, fmt.Errorf("%w: it has no attempts", ErrNoReceipt)
	case attempts > MaxAttempts || len(r.Logs) > attempts:
		return r, fmt.Errorf("%w: it has more than %d attempts, or logs without attempts", ErrNoReceipt,
			MaxAttempts)
	}
	return r, nil
}

func (l Log) verify(eventID string, keys Keys) (p ProvedLog, err error) {
	c, signedBy, err := keys.open(l.Checkpoint)
	if err != nil {
		return p, err
	}
	if len(l.Attempts) == 0 {
		return p, fmt.Errorf("the log %s has no attempts", c.Log)
	}
	for _, a := range l.Attempts {
		if err := a.verify(eventID, c); err != nil {
			return p, fmt.Errorf("attempt %d: %w", a.Number, err)
		}
	}
	if e := l.Earlier; e != nil {
		if len(e.Proof) > maxProof || e.Size <= 0 || e.Size > c.Tree.N ||
			tlog.CheckTree(e.Proof, c.Tree.N, c.Tree.Hash, e.Size, e.Root) != nil {
			return p, fmt.Errorf("no valid proof that the log %s extends the %d leaves of \"earlier\"",
				c.Log, e.Size)
		}
	}
	return ProvedLog{
		Log:      c.Log,
		Size:     c.Tree.N,
		Root:     c.Tree.Hash,
		SignedBy: signedBy,
		Earlier:  l.Earlier,
		Attempts: l.Attempts,
	}, nil
}

func (a Attempt) verify(eventID string, c Checkpoint) error {
	record, err := a.record(eventID)
	if err != nil {
		return err
	}
	if a.EndpointID != c.Log.EndpointID {
		return fmt.Errorf("it belongs to %s, but the log belongs to %s", a.EndpointID, c.Log.EndpointID)
	}
	if a.Leaf < 0 || a.Leaf >= c.Tree.N {
		return fmt.Errorf("there is no leaf %d in a log of %d", a.Leaf, c.Tree.N)
	}
	hash := tlog.RecordHash(record.Text())
	if err := tlog.CheckRecord(a.Proof, c.Tree.N, c.Tree.Hash, a.Leaf, hash); err != nil {
		return fmt.Errorf("its data is not leaf %d of the signed log", a.Leaf)
	}
	return nil
}

var (
	// ErrRewritten means that a log was changed after it was signed. The two receipts together
	// prove this to anyone.
	ErrRewritten = errors.New("the log was rewritten")
	// ErrNotCompared means that the later receipt contains no proof about the earlier state.
	ErrNotCompared = errors.New("the receipts cannot be compared")
)

// VerifyEarlier verifies that the logs of a verified receipt extend those of an earlier verified
// receipt. It ignores logs that are in only one receipt; at least one must be in both.
func VerifyEarlier(later, earlier Proved) error {
	compared := false
	for _, old := range earlier.Logs {
		for _, now := range later.Logs {
			if now.Log != old.Log {
				continue
			}
			if err := now.checkExtends(old); err != nil {
				return err
			}
			compared = true
		}
	}
	if !compared {
		return fmt.Errorf("%w: they have no log in common", ErrNotCompared)
	}
	return nil
}

func (p ProvedLog) checkExtends(old ProvedLog) error {
	switch e := p.Earlier; {
	case old.Size == p.Size && old.Root == p.Root:
		return nil
	case old.Size == p.Size, e != nil && e.Size == old.Size && e.Root != old.Root:
		return fmt.Errorf("%w: %s had another root at %d leaves when the earlier receipt was signed",
			ErrRewritten, p.Log, old.Size)
	case old.Size > p.Size:
		return fmt.Errorf("%w: %s has %d leaves in the earlier receipt and %d in the later; are "+
			"they in the wrong order?", ErrNotCompared, p.Log, old.Size, p.Size)
	case e == nil || e.Size != old.Size:
		return fmt.Errorf("%w: download the later receipt again with the earlier log size, %d "+
			"(lumenhook events receipt … --earlier-size %d)", ErrNotCompared, old.Size, old.Size)
	}
	return nil
}
