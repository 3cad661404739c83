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
	filters = append(filters, "cursor", p.Cursor)
	query := url.Values{}
	for i := 0; i < len(filters); i += 2 {
		if filters[i+1] != "" {
			query.Set(filters[i], filters[i+1])
		}
	}
	err = c.do(ctx, call{method: get, path: path, query: query, into: &answer})
	return answer, err
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
