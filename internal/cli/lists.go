package cli

import (
	"fmt"
	"io"

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
