package ledgerflags

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// Server is one of the servers that ledgers come from, to be asked by itself. What it is asked is
// asked by one goroutine.
type Server struct {
	Name   string // says nothing of what is secret in its address
	Source source.Reporter
	// Clock is its time by the Date of its last answer, and when that came; both zero if it has
	// said none.
	Clock func() (its, at time.Time)
}

// Servers returns each server that takes part, by itself.
func (s *Flags) Servers() ([]Server, error) {
	var servers []Server
	add := func(name string, open func(*http.Client) (source.Reporter, error)) error {
		dates := &dated{}
		from, err := open(&http.Client{Transport: dates})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		servers = append(servers, Server{Name: name, Source: from, Clock: dates.last})
		return nil
	}
	if s.kind == sourceRPC || s.quorum > 1 {
		for _, address := range s.rpcURLs {
			err := add(rpcName(address), func(c *http.Client) (source.Reporter, error) {
				config := s.rpcConfig(nil)
				config.URL, config.FallbackURLs, config.HTTPClient = address, nil, c
				return rpc.New(config)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	if s.lakeAddress == "" {
		return servers, nil
	}
	return servers, add(s.lakeName(), func(*http.Client) (source.Reporter, error) {
		return s.openLake(nil)
	})
}

// Quorum is how many servers must agree.
func (s *Flags) Quorum() int { return s.quorum }

// dated notes the Date of answers.
type dated struct {
	mu      sync.Mutex
	its, at time.Time
}

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if its, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		d.mu.Lock()
		d.its, d.at = its, time.Now()
		d.mu.Unlock()
	}
	return response, nil
}

func (d *dated) last() (its, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.its, d.at
}
