package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/printable"
)

// Output selects how a command prints its result: as a table, as JSON, or only one field of the
// JSON for a script.
type Output struct {
	JSON  bool
	Field string

	changes bool // the running command changes something
}

// Register adds the flags.
func (o *Output) Register(f *pflag.FlagSet) {
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.StringVar(&o.Field, "field", "", "print a single field of the JSON, such as id or data.0.id")
	NoSetting(f, "json")
	NoSetting(f, "field")
}

// Changes marks a command that changes something. If its result lacks the --field member, the
// complete result is printed, because it may contain something that is shown only once.
func (o *Output) Changes(c *cobra.Command) {
	Before(c, func() error {
		o.changes = true
		return nil
	})
}

// Before adds a check to a command's PreRunE.
func Before(c *cobra.Command, check func() error) {
	former := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if former == nil {
			return check()
		}
		return errors.Join(former(c, args), check())
	}
}

// Print prints a result. show prints it as a table.
func (o *Output) Print(w io.Writer, answer any, show func(io.Writer)) error {
	switch {
	case o.Field != "":
		err := o.member(Exact(w), answer)
		if err == nil || !o.changes {
			return err
		}
		whole := Output{JSON: true}
		return errors.Join(fmt.Errorf("the command succeeded (complete result below), "+
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

// member prints the value at a path such as data.0.id. It prints a string as is and any other value
// as JSON.
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

// PageFlags holds the flags of list commands.
type PageFlags struct{ client.Page }

// Register adds the flags, for pages of up to 250 items.
func (p *PageFlags) Register(c *cobra.Command) { p.RegisterWithin(c, 50, 250) }

// RegisterWithin adds the flags with another default and maximum.
func (p *PageFlags) RegisterWithin(c *cobra.Command, unlessGiven, most int) {
	c.Flags().IntVar(&p.Limit, "limit", unlessGiven, fmt.Sprintf(
		"maximum number of items to list, 1 to %d", most))
	c.Flags().StringVar(&p.Cursor, "cursor", "", "continue from where a previous list ended")
	Before(c, func() error {
		if p.Limit < 1 || p.Limit > most {
			return fmt.Errorf("--limit %d: must be from 1 to %d", p.Limit, most)
		}
		return nil
	})
}

// More prints how to get the next page.
func More(w io.Writer, next *string) {
	if next != nil {
		_, _ = fmt.Fprintf(w, "\nmore: --cursor %s\n", *next)
	}
}

// Row writes one row of a table.
func Row(w io.Writer, cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(w, "\t") // Flush reports errors
		}
		_, _ = fmt.Fprint(w, OneLine(cell))
	}
	_, _ = io.WriteString(w, "\n")
}

// ShowFields prints the fields of a struct, one per line, labeled with their JSON names as words.
// It omits the fields in except and those that JSON omits.
func ShowFields(w io.Writer, of any, except ...string) {
	v := reflect.ValueOf(of)
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" || slices.Contains(except, name) {
			continue
		}
		value := v.FieldByIndex(f.Index)
		if value.IsZero() && strings.HasPrefix(options, "omit") {
			continue
		}
		words := capitals.ReplaceAllStringFunc(name, func(c string) string {
			return " " + strings.ToLower(c)
		})
		Row(w, words, value.Interface())
	}
}

// OneLine formats a value as a table cell, on one line and with [printable.Text]. It dereferences
// pointers and formats nil as a dash.
func OneLine(v any) string {
	if v == nil {
		return "-"
	}
	if pointer := reflect.ValueOf(v); pointer.Kind() == reflect.Pointer {
		if pointer.IsNil() {
			return "-"
		}
		_, says := v.(fmt.Stringer)
		pointee := pointer.Elem().Interface()
		if _, itself := pointee.(fmt.Stringer); itself || !says {
			return OneLine(pointee)
		}
	}
	text := fmt.Sprint(v)
	switch v := v.(type) {
	case time.Time:
		text = v.UTC().Format(time.RFC3339)
	default:
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
			cells := make([]string, list.Len())
			for i := range cells {
				cells[i] = OneLine(list.Index(i).Interface())
			}
			text = strings.Join(cells, ",")
		}
	}
	if text == "" {
		return "-"
	}
	return printable.Text(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, text))
}

// Plain returns a writer that escapes the characters that [printable.Text] escapes, so that no
// control sequences reach a terminal. Every command's output and errors go through it. Escaped JSON
// still has the same value.
func Plain(w io.Writer) io.Writer { return &plain{below: w} }

type plain struct {
	below io.Writer
	part  []byte // the start of an incomplete character
}

func (p *plain) Write(text []byte) (int, error) {
	whole := append(p.part, text...)
	end := len(whole)
	for n := 1; n < utf8.UTFMax && n <= end; n++ {
		if last := whole[end-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				end -= n
			}
			break
		}
	}
	p.part = append([]byte(nil), whole[end:]...)
	if _, err := io.WriteString(p.below, printable.Text(string(whole[:end]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Exact returns the writer below a Plain writer, for output that programs read byte by byte, such
// as CSV. On a terminal it returns the Plain writer.
func Exact(w io.Writer) io.Writer {
	if p, is := w.(*plain); is && !IsTerminal(p.below) {
		return p.below
	}
	return w
}
