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

// CheckAddress checks that a listen address has the form host:port.
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

// ParseDays parses a duration, which may be in days.
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

// DurationWithin adds a flag for a duration between least and most. Its help and its errors show
// both.
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

// ShortDuration formats a duration without zero units: 24h instead of 24h0m0s.
func ShortDuration(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len(zero)+1]
		}
	}
	return text
}

// Faults joins all faults of a command line in a fixed order. It returns nil if there are none.
func Faults(faults []error) error {
	faults = slices.DeleteFunc(faults, func(err error) bool { return err == nil })
	slices.SortFunc(faults, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// ReadInput reads up to most bytes from a file, or from standard input if file is "-". If stdin is
// nil, "-" is an error.
func ReadInput(stdin io.Reader, file string, most int64) ([]byte, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	if stdin == nil {
		return nil, errors.New("this command doesn't read standard input")
	}
	data, err := io.ReadAll(io.LimitReader(stdin, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("is larger than %d bytes", most)
	}
	return data, err
}
