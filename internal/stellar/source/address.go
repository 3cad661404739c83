package source

import (
	"errors"
	"fmt"
	"net/url"
)

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
