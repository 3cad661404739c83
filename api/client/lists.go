package client

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// List is one page of a list. NextCursor is nil on the last page.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// Page selects a page of a list.
type Page struct {
	Limit  int    `json:"limit,omitempty" help:"maximum number of items to list"` // 0: 50
	Cursor string `json:"cursor,omitempty" help:"nextCursor of the previous page, to get the next page"`
}

func list[T any](
	ctx context.Context, c *Client, path string, p Page, filter any,
) (answer List[T], err error) {
	return read[List[T]](ctx, c, path, filter, p)
}

// read sends a GET request with the fields of structs as parameters.
func read[T any](
	ctx context.Context, c *Client, path string, parameters ...any,
) (answer T, err error) {
	one := call{method: get, path: path, query: query(parameters...), into: &answer}
	return answer, c.do(ctx, one)
}

// query encodes the nonzero fields of structs as parameters, named by their JSON tags.
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
