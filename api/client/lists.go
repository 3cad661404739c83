package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// List is a page of a list. NextCursor is nil at the end.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// Page selects a page of a list.
type Page struct {
	Limit  int    // 0: 50
	Cursor string // of the previous page; empty: the first
}

// list reads a page; filters are alternating names and values, and empty ones are left out.
func list[T any](
	ctx context.Context, c *Client, path string, p Page, filters ...string,
) (answer List[T], err error) {
	if p.Limit != 0 {
		filters = append(filters, "limit", strconv.Itoa(p.Limit))
	}
	query := parameters(append(filters, "cursor", p.Cursor)...)
	err = c.do(ctx, call{method: get, path: path, query: query, into: &answer})
	return answer, err
}

// parameters are of alternating names and values, without those that are empty.
func parameters(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
