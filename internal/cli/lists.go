package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
)

// PageFlags are the flags of every list.
type PageFlags struct{ client.Page }

// Register adds the flags.
func (p *PageFlags) Register(c *cobra.Command) { p.RegisterWithin(c, 50, 250) }

// RegisterWithin adds the flags, for a list with bounds of its own.
func (p *PageFlags) RegisterWithin(c *cobra.Command, unlessGiven, most int) {
	c.Flags().IntVar(&p.Limit, "limit", unlessGiven, fmt.Sprintf("how many to list, 1 to %d", most))
	c.Flags().StringVar(&p.Cursor, "cursor", "", "go on where an earlier list ended")
	Before(c, func() error {
		if p.Limit < 1 || p.Limit > most {
			return fmt.Errorf("--limit %d: must be from 1 to %d", p.Limit, most)
		}
		return nil
	})
}

// More prints how to continue a list.
func More(w io.Writer, next *string) {
	if next != nil {
		_, _ = fmt.Fprintf(w, "\nmore: --cursor %s\n", *next)
	}
}

// aheadMost is how far the clock of whoever told a time may be ahead of this machine's.
const aheadMost = time.Minute

// PastFlag parses the value of a flag like InstantFlag, for a command that waits for what is to
// come: one that begins in the future would wait in silence.
func PastFlag(name, text string) (time.Time, error) {
	at, err := InstantFlag(name, text)
	if err == nil && time.Until(at) > aheadMost {
		err = Usage(fmt.Errorf("--%s %q: is in the future: must be a time that has passed, or how long "+
			"ago, such as 24h; without --%s it begins now", name, text, name))
	}
	return at, err
}

// InstantFlag parses the value of a flag that is a time, or a duration before now.
func InstantFlag(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if span, err := time.ParseDuration(text); err == nil && span >= 0 {
		return time.Now().Add(-span), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, Usage(fmt.Errorf("--%s %q: must be a time such as "+
			"2026-11-21T10:15:30Z, or how long ago, such as 24h", name, text))
	}
	return at.UTC(), nil
}
