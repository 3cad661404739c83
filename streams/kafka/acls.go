package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Resource is a kind of Kafka resource that an ACL protects.
type Resource string

// Kinds of resources, as kafka-acls.sh names them.
const (
	ResourceTopic           Resource = "topic"
	ResourceGroup           Resource = "group"
	ResourceTransactionalID Resource = "transactional-id"
	ResourceCluster         Resource = "cluster"
)

// Operation is an ACL operation, as kafka-acls.sh names it.
type Operation string

// Operations.
const (
	OpRead            Operation = "Read"
	OpWrite           Operation = "Write"
	OpDescribe        Operation = "Describe"
	OpDescribeConfigs Operation = "DescribeConfigs"
	OpCreate          Operation = "Create"
	OpDelete          Operation = "Delete"
	OpAlterConfigs    Operation = "AlterConfigs"
)

var kafkaOperations = map[Operation]kmsg.ACLOperation{
	OpRead:            kadm.OpRead,
	OpWrite:           kadm.OpWrite,
	OpDescribe:        kadm.OpDescribe,
	OpDescribeConfigs: kadm.OpDescribeConfigs,
	OpCreate:          kadm.OpCreate,
	OpDelete:          kadm.OpDelete,
	OpAlterConfigs:    kadm.OpAlterConfigs,
}

// ACL allows a principal to perform an operation on resources of one type, from any host.
type ACL struct {
	Principal string    `json:"principal"` // for example User:lumenhook-engine
	Operation Operation `json:"operation"`
	Resource  Resource  `json:"resource"`
	Names     []string  `json:"names"` // full names; one empty name for the cluster
	Prefixed  bool      `json:"prefixed"`
}

// Arguments returns the kafka-acls.sh arguments that add the ACL.
func (a ACL) Arguments() []string {
	args := []string{"--add", "--allow-principal", a.Principal, "--operation", string(a.Operation)}
	for _, name := range a.Names {
		args = append(args, "--"+string(a.Resource))
		if a.Resource != ResourceCluster {
			args = append(args, name)
		}
	}
	if a.Prefixed {
		args = append(args, "--resource-pattern-type", "prefixed")
	}
	return args
}

// String describes the ACL for error messages.
func (a ACL) String() string {
	what := strings.TrimSpace(string(a.Resource) + " " + strings.Join(a.Names, ", "))
	if a.Prefixed {
		what += "…"
	}
	return fmt.Sprintf("%s on %s by %s", a.Operation, what, a.Principal)
}

func (a ACL) builder() *kadm.ACLBuilder {
	b := kadm.NewACLs().Allow(a.Principal).AllowHosts().Operations(kafkaOperations[a.Operation])
	pattern := kadm.ACLPatternLiteral
	if a.Prefixed {
		pattern = kadm.ACLPatternPrefixed
	}
	b.ResourcePatternType(pattern)
	switch a.Resource {
	case ResourceTopic:
		b.Topics(a.Names...)
	case ResourceGroup:
		b.Groups(a.Names...)
	case ResourceTransactionalID:
		b.TransactionalIDs(a.Names...)
	case ResourceCluster:
		b.Clusters()
	}
	return b
}

// AllowedOnTopics returns what the cluster's user may do on each topic. It omits topics that do not
// exist, and topics for which the broker does not report it.
func (c Cluster) AllowedOnTopics(
	ctx context.Context, topics ...string,
) (map[string][]Operation, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	req := c.metadataRequest(topics)
	req.IncludeTopicAuthorizedOperations = true
	return whileTransient(ctx, func() (map[string][]Operation, error) {
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("streams: describing the allowed operations: %w", err)
		}
		by := make(map[string][]Operation)
		for _, t := range resp.Topics {
			err := kerr.ErrorForCode(t.ErrorCode)
			switch {
			case t.Topic == nil || errors.Is(err, kerr.UnknownTopicOrPartition):
			case errors.Is(err, kerr.TopicAuthorizationFailed):
				by[c.shortName(*t.Topic)] = nil
			case err != nil:
				return nil, fmt.Errorf("streams: describing the operations allowed on topic %s: %w",
					*t.Topic, err)
			case t.AuthorizedOperations != math.MinInt32:
				by[c.shortName(*t.Topic)] = operations(t.AuthorizedOperations)
			}
		}
		return by, nil
	})
}

func operations(set int32) (list []Operation) {
	allowed := kadm.DecodeACLOperations(set)
	for name, op := range kafkaOperations {
		if slices.Contains(allowed, op) {
			list = append(list, name)
		}
	}
	return list
}

// CreateACLs creates ACLs. Existing ACLs are left unchanged.
func (c Cluster) CreateACLs(ctx context.Context, acls []ACL) error {
	return c.eachACL(ctx, "creating", acls, func(admin *kadm.Client, b *kadm.ACLBuilder) error {
		made, err := admin.CreateACLs(ctx, b)
		for _, m := range made {
			if err == nil && m.Err != nil {
				err = fmt.Errorf("%w: %s", m.Err, m.ErrMessage)
			}
		}
		return err
	})
}

// DeleteACLs deletes ACLs.
func (c Cluster) DeleteACLs(ctx context.Context, acls []ACL) error {
	return c.eachACL(ctx, "deleting", acls, func(admin *kadm.Client, b *kadm.ACLBuilder) error {
		gone, err := admin.DeleteACLs(ctx, b)
		for _, g := range gone {
			if err == nil {
				err = g.Err
			}
		}
		return err
	})
}

func (c Cluster) eachACL(
	ctx context.Context, doing string, acls []ACL, do func(*kadm.Client, *kadm.ACLBuilder) error,
) error {
	return c.WithAdmin(ctx, func(_ context.Context, admin *kadm.Client) error {
		for _, a := range acls {
			if err := do(admin, a.builder()); err != nil {
				return fmt.Errorf("streams: %s the ACL for %s: %w", doing, a, err)
			}
		}
		return nil
	})
}
