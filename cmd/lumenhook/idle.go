package main

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

// maxIdleEndpoints bounds the endpoints whose connections are looked after; those
// of others end by their own idle time.
const maxIdleEndpoints = 8192

// idleConnections drops the idle connections to an endpoint that was disabled,
// deleted or moved. It knows where this process has posted, since only there can
// idle connections be.
type idleConnections struct {
	posted *lru.Cache[string, string] // endpoint id to url
	urlOf  func(endpointID string) (string, bool)
	drop   func(url string)
}

func newIdleConnections(urlOf func(string) (string, bool), drop func(url string)) *idleConnections {
	posted, err := lru.New[string, string](maxIdleEndpoints)
	if err != nil {
		panic("idle connections: " + err.Error()) // of a size that is not positive
	}
	return &idleConnections{posted: posted, urlOf: urlOf, drop: drop}
}

// fact is told of each fact that was committed, in the order of each endpoint.
func (c *idleConnections) fact(f domain.Fact) {
	switch b := f.Body.(type) {
	case domain.AttemptMade:
		if !c.posted.Contains(f.Aggregate) {
			if url, known := c.urlOf(f.Aggregate); known {
				c.posted.Add(f.Aggregate, url)
			}
		}
	case domain.EndpointUpdated:
		if b.Change.URL != nil {
			c.forget(f.Aggregate)
		}
	case domain.EndpointDisabled, domain.EndpointDeleted:
		c.forget(f.Aggregate)
	}
}

func (c *idleConnections) forget(endpointID string) {
	if url, posted := c.posted.Peek(endpointID); posted {
		c.posted.Remove(endpointID)
		c.drop(url)
	}
}
