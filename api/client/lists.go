package client

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// List is a page of a list. NextCursor is nil at the end.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// Page selects a page of a list.
type Page struct {
	Limit  int    `json:"limit,omitempty" help:"maximum number of items to list"` // 0: 50
	Cursor string `json:"cursor,omitempty" help:"nextCursor of the previous page, to get the next page"`
}

// list reads a page of what a filter selects.
func list[T any](
	ctx context.Context, c *Client, path string, p Page, filter any,
) (answer List[T], err error) {
	return read[List[T]](ctx, c, path, filter, p)
}

// read makes a call with parameters.
func read[T any](
	ctx context.Context, c *Client, path string, parameters ...any,
) (answer T, err error) {
	one := call{method: get, path: path, query: query(parameters...), into: &answer}
	return answer, c.do(ctx, one)
}

// query encodes the fields of structs as parameters, named as their JSON is. A field without a
// value is left out.
func query(structs ...any) url.Values {
	q := url.Values{}
	for _, one := range structs {
		v := reflect.ValueOf(one)
		for _, f := range reflect.VisibleFields(v.Type()) {
			value := v.FieldByIndex(f.Index)
			if f.Anonymous || value.IsZero() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch value := value.Interface().(type) {
			case time.Time:
				q.Set(name, value.UTC().Format(time.RFC3339Nano))
			case time.Duration:
				q.Set(name, fmt.Sprint(int64(value/time.Second)))
			default:
				q.Set(name, fmt.Sprint(value))
			}
		}
	}
	return q
}
