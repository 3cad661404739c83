package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
)

// Output is how a command prints its answer: for people, as JSON, or one member of
// it for a script.
type Output struct {
	JSON  bool
	Field string

	changes bool // of the command that runs, which says so
}

// Register adds the flags.
func (o *Output) Register(f *pflag.FlagSet) {
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.StringVar(&o.Field, "field", "", "print one member of the JSON alone, such as id or data.0.id")
	for _, name := range []string{"json", "field"} {
		annotate(f.Lookup(name), answerKey, "true")
	}
}

// Changes marks a command that changes something. Should its answer lack the member of --field, the
// whole answer is printed: what it shows may be shown only once.
func (o *Output) Changes(c *cobra.Command) {
	Before(c, func() error {
		o.changes = true
		return nil
	})
}

// Before adds a check to those that a command makes before it runs.
func Before(c *cobra.Command, check func() error) {
	former := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if former == nil {
			return check()
		}
		return errors.Join(former(c, args), check())
	}
}

// Print prints an answer. show prints it in columns, for people.
func (o *Output) Print(w io.Writer, answer any, show func(io.Writer)) error {
	switch {
	case o.Field != "":
		err := o.member(Exact(w), answer)
		if err == nil || !o.changes {
			return err
		}
		whole := Output{JSON: true}
		return errors.Join(fmt.Errorf("what you asked for was done, and this is its whole answer, "+
			"but %w", err), whole.Print(w, answer, nil))
	case o.JSON:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(answer)
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	show(columns)
	return columns.Flush()
}

// member prints the value at a path such as data.0.id: a text as it is, anything else as
// JSON.
func (o *Output) member(w io.Writer, answer any) error {
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	var at any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&at); err != nil {
		return err
	}
	reached := "the answer"
	for name := range strings.SplitSeq(o.Field, ".") {
		inside, there := step(at, name)
		if !there {
			return fmt.Errorf("--field %q: %s", o.Field, lacks(reached, name, at))
		}
		at, reached = inside, strings.TrimPrefix(reached+"."+name, "the answer.")
	}
	if text, ok := at.(string); ok {
		_, err = fmt.Fprintln(w, text)
		return err
	}
	return json.NewEncoder(w).Encode(at)
}

func step(at any, name string) (inside any, there bool) {
	switch at := at.(type) {
	case map[string]any:
		inside, there = at[name]
	case []any:
		n, err := strconv.Atoi(name)
		if there = err == nil && n >= 0 && n < len(at); there {
			inside = at[n]
		}
	}
	return inside, there
}

// lacks returns why what was reached has no member of a name.
func lacks(reached, name string, at any) string {
	switch at := at.(type) {
	case map[string]any:
		if len(at) == 0 {
			return reached + " has no members"
		}
		return fmt.Sprintf("%s has no %q; it has %s",
			reached, name, strings.Join(slices.Sorted(maps.Keys(at)), ", "))
	case []any:
		if len(at) == 0 {
			return reached + " is an empty list"
		}
		return fmt.Sprintf("%s has no %q; it is a list, whose members are 0 to %d",
			reached, name, len(at)-1)
	}
	return reached + " has no members"
}

// PageFlags are the flags of every list.
type PageFlags struct{ client.Page }

// Register adds the flags.
func (p *PageFlags) Register(c *cobra.Command) { p.RegisterWithin(c, 50, 250) }

// RegisterWithin adds the flags, for a list with bounds of its own.
func (p *PageFlags) RegisterWithin(c *cobra.Command, unlessGiven, most int) {
	c.Flags().IntVar(&p.Limit, "limit", unlessGiven, fmt.Sprintf("how many to list, 1 to %d", most))
	c.Flags().StringVar(&p.Cursor, "cursor", "", "continue where an earlier list ended")
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
