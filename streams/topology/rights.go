package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// checkRights returns which topics the user may not read or write that the roles read or
// write. Whatever else a role may do, it reports where it does it: without these it would
// begin, and fail later. A missing topic is a fault of its own.
func checkRights(ctx context.Context, c kafka.Cluster, roles []string) (*Fault, error) {
	if len(roles) == 0 {
		return nil, nil
	}
	var topics []string
	for _, t := range schemas.Topics() {
		topics = append(topics, t.Name)
	}
	allowed, err := c.AllowedOnTopics(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, role := range Roles() {
		if !slices.Contains(roles, role.Name) {
			continue
		}
		for _, right := range role.Rights {
			missing = append(missing, right.missing(c.Prefix, allowed)...)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	slices.Sort(missing)
	return &Fault{
		Name: Rights,
		What: "the user of this process may not " + strings.Join(slices.Compact(missing), ", nor ") +
			" (TOPIC_AUTHORIZATION_FAILED): the work of " + strings.Join(roles, ", ") + " would stand still",
		Do: "let an administrator run what `lumenhook topics acls` prints",
	}, nil
}

// missing returns what of a right to read or write topics is not allowed. Of a topic that is
// left out nothing is known.
func (r Right) missing(
	prefix string, allowed map[string][]kafka.Operation,
) (list []string) {
	if r.Resource != kafka.ResourceTopic || r.Prefixed ||
		r.Operation != kafka.OpRead && r.Operation != kafka.OpWrite {
		return nil
	}
	for _, topic := range r.Names {
		if may, known := allowed[topic]; known && !slices.Contains(may, r.Operation) {
			list = append(list, fmt.Sprintf("%s topic %s%s", strings.ToLower(string(r.Operation)), prefix,
				topic))
		}
	}
	return list
}
