package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// CheckAddress checks that an address to listen on is of the form host:port.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("must be host:port, such as 127.0.0.1:0")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("the port must be from 0 to 65535")
	}
	if host == "" {
		return errors.New("must name a host; 0.0.0.0 means all of this machine's addresses")
	}
	return nil
}

// ParseDays parses a duration that may be in days.
func ParseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36_500 {
			return 0, fmt.Errorf("must be days such as 90d, or hours such as 2160h")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("must be days such as 90d, or hours such as 2160h")
	}
	return d, nil
}

// DurationWithin adds a flag of a duration from least to most. Another one is a fault of the
// command line that names both.
func DurationWithin(
	f *pflag.FlagSet, to *time.Duration, name string, unlessGiven, least, most time.Duration,
	usage string,
) {
	*to = unlessGiven
	span := "from " + ShortDuration(least) + " to " + ShortDuration(most)
	f.Var(&value{
		kind: "duration",
		form: "must be a time " + span,
		text: func() string { return to.String() },
		set: func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || d < least || d > most {
				return errForm
			}
			*to = d
			return nil
		},
	}, name, usage+", "+span)
}

// ShortDuration is the text of a duration as people write it: 24h, and not 24h0m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len(zero)+1]
		}
	}
	return text
}

// Faults joins all faults of a command line to one error, in a fixed order; nil without faults.
func Faults(faults []error) error {
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// ReadInput reads a file, or standard input for -, up to a limit.
func ReadInput(stdin io.Reader, file string, most int64) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("holds more than %d bytes", most)
	}
	return data, err
}
