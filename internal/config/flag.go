package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// Flag declares one flag. Its name determines its environment variable (cli.Variable).
type Flag struct {
	name   string
	add    func(*pflag.FlagSet)
	fault  func() (value any, fault error) // the value's own fault
	secret bool                            // never shown in errors or lists of settings
	values []string                        // offered by shell completion
}

type kind interface {
	string | []string | bool | int | int32 | int64 | uint32 | float64 | time.Duration
}

// Value declares a flag with its destination, default, help text and checks. A check may also parse
// the value (see [Into]).
func Value[T kind](name string, to *T, unset T, help string, checks ...func(T) error) Flag {
	add := func(f *pflag.FlagSet) {
		switch to := any(to).(type) {
		case *string:
			f.StringVar(to, name, any(unset).(string), help)
		case *[]string:
			f.StringSliceVar(to, name, any(unset).([]string), help)
		case *bool:
			f.BoolVar(to, name, any(unset).(bool), help)
		case *int:
			f.IntVar(to, name, any(unset).(int), help)
		case *int32:
			f.Int32Var(to, name, any(unset).(int32), help)
		case *int64:
			f.Int64Var(to, name, any(unset).(int64), help)
		case *uint32:
			f.Uint32Var(to, name, any(unset).(uint32), help)
		case *float64:
			f.Float64Var(to, name, any(unset).(float64), help)
		case *time.Duration:
			f.DurationVar(to, name, any(unset).(time.Duration), help)
		}
	}
	return Flag{name: name, add: add, fault: func() (any, error) {
		for _, check := range checks {
			if err := check(*to); err != nil {
				return *to, err
			}
		}
		return nil, nil
	}}
}

// Hidden marks the value as secret, so that no error shows it.
func (d Flag) Hidden() Flag {
	d.secret = true
	return d
}

// Of lists the possible values.
func (d Flag) Of(values ...string) Flag {
	d.values = values
	return d
}

// Flags holds the flags declared by one part of the program.
type Flags struct {
	*pflag.FlagSet
	declared []Flag
}

// Group adds flags under a heading of the help. roles lists the roles that use them; "" means all.
func (s *Flags) Group(f *pflag.FlagSet, heading, roles string, declared ...Flag) {
	s.FlagSet = f
	s.declared = append(s.declared, declared...)
	for _, d := range declared {
		d.add(f)
		cli.Describe(f.Lookup(d.name), heading, roles, d.secret)
		cli.Offer(f, d.name, d.values...)
	}
}

// Faults returns an error for each flag whose value is invalid on its own.
func (s *Flags) Faults() (faults []error) {
	for _, d := range s.declared {
		if given, err := d.fault(); err != nil {
			faults = append(faults, fmt.Errorf("--%s%s: %w", d.name, d.shown(given), err))
		}
	}
	return faults
}

func (d Flag) shown(value any) string {
	_, isList := value.([]string)
	text, isText := value.(string)
	switch {
	case d.secret || isList:
		return ""
	case isText:
		return fmt.Sprintf(" %q", text)
	}
	return fmt.Sprintf(" %v", value)
}

// Into returns a check that parses a value and stores the result in to.
func Into[F, T any](to *T, parse func(F) (T, error)) func(F) error {
	return func(from F) (err error) {
		*to, err = parse(from)
		return err
	}
}

// Bounded declares a flag with a lower and an upper bound. The help shows both.
func Bounded[T interface {
	kind
	cmp.Ordered
}](name string, to *T, unset T, help string, low, high T) Flag {
	help = fmt.Sprintf("%s (%s to %s)", help, bound(low), bound(high))
	return Value(name, to, unset, help, Between(low, high))
}

// Between returns a check for a value between low and high, inclusive.
func Between[T cmp.Ordered](low, high T) func(T) error {
	return func(n T) error {
		if n < low || n > high {
			return fmt.Errorf("must be from %s to %s", bound(low), bound(high))
		}
		return nil
	}
}

// bound formats a number or a duration. Durations are short: 1h instead of 1h0m0s.
func bound(n any) string {
	if d, is := n.(time.Duration); is {
		return cli.ShortDuration(d)
	}
	return fmt.Sprint(n)
}

// AtLeast returns a check for a lower bound.
func AtLeast[T cmp.Ordered](low T) func(T) error {
	return func(n T) error {
		if n < low {
			return fmt.Errorf("must be %v or more", low)
		}
		return nil
	}
}

// Optional returns a check that also accepts an empty value.
func Optional(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

// readPassword reads a password from a file. Trailing line breaks are not part of it.
func readPassword(file string) (string, error) {
	data, err := os.ReadFile(file)
	password := strings.TrimRight(string(data), "\r\n")
	if err == nil && password == "" {
		err = errors.New("contains no password")
	}
	return password, err
}
