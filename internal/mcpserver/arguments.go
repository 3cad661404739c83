package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mostWhole is far above every number that a tool takes.
const mostWhole = 1 << 31

// argument is one that a tool takes: a string or a whole number.
type argument struct {
	name   string
	needed bool
	whole  bool
}

// argumentsOf are those of a tool's input, by the members of its JSON.
func argumentsOf[In any]() (all []argument) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if field.Anonymous {
			continue // its own fields are listed too
		}
		name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, argument{
			name:   name,
			needed: rest != "omitempty",
			whole:  field.Type.Kind() == reflect.Int,
		})
	}
	return all
}

// refuseWrong refuses what a tool does not take, before the SDK does in the words of JSON Schema.
func refuseWrong(tool string, takes []argument) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			call, is := r.(*mcp.CallToolRequest)
			if !is || call.Params.Name != tool {
				return next(ctx, method, r)
			}
			if err := checkArguments(tool, call.Params.Arguments, takes); err != nil {
				var refused mcp.CallToolResult
				refused.SetError(err)
				return &refused, nil
			}
			return next(ctx, method, r)
		}
	}
}

// checkArguments names one that is wrong.
func checkArguments(tool string, given json.RawMessage, takes []argument) error {
	var values map[string]any
	if len(given) > 0 && json.Unmarshal(given, &values) != nil {
		return fmt.Errorf("the arguments of %s must be an object of JSON", tool)
	}
	names := make([]string, len(takes))
	for i, a := range takes {
		names[i] = a.name
	}
	for name := range values {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s has no argument %.80q: %s", tool, name, listed(names))
		}
	}
	for _, a := range takes {
		value, is := values[a.name]
		switch {
		case !is && a.needed:
			return fmt.Errorf("%s needs the argument %s", tool, a.name)
		case is && a.whole && !isWhole(value):
			return fmt.Errorf("%s: must be a whole number, without quotes", a.name)
		case is && !a.whole && !isString(value):
			return fmt.Errorf("%s: must be a string, in quotes", a.name)
		}
	}
	return nil
}

func isWhole(value any) bool {
	n, is := value.(float64)
	return is && n == math.Trunc(n) && math.Abs(n) < mostWhole
}

func isString(value any) bool {
	_, is := value.(string)
	return is
}

// listed says which arguments a tool takes.
func listed(names []string) string {
	last := len(names) - 1
	switch last {
	case -1:
		return "it takes none"
	case 0:
		return "its argument is " + names[0]
	}
	return "its arguments are " + strings.Join(names[:last], ", ") + " and " + names[last]
}
