package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// patienceMax bounds how long a server may have us wait before it is asked again.
const patienceMax = 10 * time.Minute

// ParseAddress reads the URL of a server.
func ParseAddress(address, kind, name string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: the %s URL must be like https://host:port/path", kind, name)
	}
	return u, nil
}

// WithoutAddress drops the URL that net/http puts into its errors: it may hold a
// provider's key.
func WithoutAddress(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// RetryAfter reads the header of that name (RFC 9110, section 10.2.3): seconds or a date. What it
// cannot read is no wait, and no wait is longer than ten minutes.
func RetryAfter(text string, now time.Time) (wait time.Duration) {
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(patienceMax/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		wait = min(max(at.Sub(now), 0), patienceMax)
	}
	return wait
}
