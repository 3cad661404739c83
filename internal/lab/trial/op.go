package trial

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// Op is an operation of a script. It refers to objects by slots (e3 is the script's fourth
// endpoint, w0 the first watch, g2 the third wallet), so that a script keeps its meaning if
// operations are left out. An operation on an empty slot does nothing.
type Op struct {
	At   int    `json:"at"`   // earliest time, in milliseconds after the start
	Lane string `json:"lane"` // operations in a lane run one after another
	Do   string `json:"do"`

	Endpoint string      `json:"endpoint,omitempty"`
	Watch    string      `json:"watch,omitempty"`
	Wallet   string      `json:"wallet,omitempty"`
	Mode     string      `json:"mode,omitempty"`   // a receiver's behaviour, or a variant of Do
	Point    string      `json:"point,omitempty"`  // request that is held during a kill
	Text     string      `json:"text,omitempty"`   // description or label
	Repeat   bool        `json:"repeat,omitempty"` // send the request twice
	Rules    *draw.Rules `json:"rules,omitempty"`
	Pay      *Pay        `json:"pay,omitempty"`
	N        int         `json:"n,omitempty"` // a count, an index or milliseconds
}

// Pay is a payment of XLM to the wallet of an operation.
type Pay struct {
	Payer   int        `json:"payer"`
	Amount  int64      `json:"amount"` // stroops
	Memo    *draw.Memo `json:"memo,omitempty"`
	Muxed   *uint64    `json:"muxed,omitempty"`
	Times   int        `json:"times,omitempty"`   // operations in the transaction
	Creates bool       `json:"creates,omitempty"` // it creates the wallet
}

// WriteScript writes one operation per line.
func WriteScript(w io.Writer, ops []Op) error {
	e := json.NewEncoder(w)
	for _, op := range ops {
		if err := e.Encode(op); err != nil {
			return fmt.Errorf("trial: writing a script: %w", err)
		}
	}
	return nil
}

// ReadScript reads a script written by WriteScript.
func ReadScript(path string) ([]Op, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trial: reading a script: %w", err)
	}
	defer func() { _ = f.Close() }()
	var ops []Op
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var op Op
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			return nil, fmt.Errorf("trial: %s: operation %d: %w", path, len(ops)+1, err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func (o Op) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // an Op is plain data
	}
	return string(text)
}

// Shrink removes operations as long as the script still fails, until a point in time. It tries
// complete lanes first. fails runs a script and reports whether it violates the same rule.
func Shrink(ops []Op, until time.Time, fails func([]Op) bool) []Op {
	tried := map[string]bool{}
	for _, op := range ops {
		if tried[op.Lane] || time.Now().After(until) {
			continue
		}
		tried[op.Lane] = true
		others := slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return o.Lane == op.Lane })
		if len(others) > 0 && fails(others) {
			ops = others
		}
	}
	return draw.Shrink(ops, until, fails)
}
