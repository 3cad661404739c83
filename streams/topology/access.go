package topology

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Right is one operation that a role may perform on some resources of one kind. READ and WRITE
// imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.
type Right struct {
	Resource  kafka.Resource
	Operation kafka.Operation
	// Names do not include the deployment's prefix. An empty name is the prefix itself.
	Names []string
	// Prefixed extends each name to all names that begin with it.
	Prefixed bool
	// Internal means that the names are Kafka's own, without the deployment's prefix.
	Internal bool
}

// Role is a set of parts that do one kind of work with their own credentials.
type Role struct {
	Name   string
	Rights []Right
}

func read(topics ...string) Right {
	return Right{Resource: kafka.ResourceTopic, Operation: kafka.OpRead, Names: topics}
}

func write(topics ...string) Right {
	return Right{Resource: kafka.ResourceTopic, Operation: kafka.OpWrite, Names: topics}
}

func named(resource kafka.Resource, op kafka.Operation, name string) Right {
	return Right{Resource: resource, Operation: op, Names: []string{name}}
}

func prefixed(resource kafka.Resource, op kafka.Operation, prefix string) Right {
	r := named(resource, op, prefix)
	r.Prefixed = true
	return r
}

func group(name string) Right { return named(kafka.ResourceGroup, kafka.OpRead, name) }

func transactions(id string) Right {
	return named(kafka.ResourceTransactionalID, kafka.OpWrite, id)
}

// all is a right on all topics of the deployment.
func all(op kafka.Operation) Right { return prefixed(kafka.ResourceTopic, op, "") }

// internal is a right on Kafka's own topics.
func internal(op kafka.Operation) Right {
	names := []string{transactionState, groupPositions}
	return Right{Resource: kafka.ResourceTopic, Operation: op, Names: names, Internal: true}
}

func deleteRecords() Right {
	r := Right{Resource: kafka.ResourceTopic, Operation: kafka.OpDelete}
	for _, topic := range Retained() {
		r.Names = append(r.Names, topic.Name)
	}
	return r
}

var (
	holdRecords = []Right{
		prefixed(kafka.ResourceGroup, kafka.OpRead, historyHolders),
		prefixed(kafka.ResourceGroup, kafka.OpDelete, historyHolders),
	}
	clock           = named(kafka.ResourceCluster, kafka.OpDescribe, "")
	describeBrokers = named(kafka.ResourceCluster, kafka.OpDescribeConfigs, "")
	lookInside      = []Right{internal(kafka.OpDescribe), internal(kafka.OpDescribeConfigs)}
	readRights      = with(lookInside, all(kafka.OpDescribe), all(kafka.OpDescribeConfigs), clock)
)

var directory = []string{
	schemas.TopicAccounts, schemas.TopicEndpoints, schemas.TopicWatches, schemas.TopicKeyUses,
}

var projected = []string{
	schemas.TopicPayments, schemas.TopicEndpoints, schemas.TopicWatches, schemas.TopicJournal,
}

// Names of groups and transactional ids, without the prefix.
const (
	engineName    = "engine"
	followerName  = "follower"
	backfillName  = followerName + ".backfill"
	projectorName = "projector"
	mailerName    = "mailer"
	// historyHolders prefixes the groups with which rebuild, verify-projection (writer.HoldersPrefix)
	// and backup hold records.
	historyHolders = "history-"
)

// Roles lists what each role does in Kafka. Tests compare it with the roles' behavior.
func Roles() []Role {
	commands := []Right{read(schemas.TopicResults), write(schemas.TopicCommands)}
	return []Role{
		{engineName, with(readRights,
			prefixed(kafka.ResourceTransactionalID, kafka.OpWrite, engineName+"-"), group(engineName),
			read(schemas.TopicCommands, schemas.TopicMatches, schemas.TopicJournal,
				schemas.TopicSnapshots),
			write(schemas.TopicJournal, schemas.TopicSnapshots, schemas.TopicResults, schemas.TopicAccounts,
				schemas.TopicEndpoints, schemas.TopicWatches, schemas.TopicMails,
				schemas.TopicDeadLetters),
			deleteRecords(), prefixed(kafka.ResourceGroup, kafka.OpDescribe, ""))},
		{followerName, with(readRights,
			transactions(followerName), transactions(backfillName), group(followerName),
			read(with(directory, schemas.TopicLedgers, schemas.TopicPayments, schemas.TopicMatches,
				schemas.TopicResults)...),
			write(schemas.TopicPayments, schemas.TopicMatches, schemas.TopicLedgers,
				schemas.TopicQuarantine, schemas.TopicCommands))},
		{"api", with(readRights,
			read(with(directory, schemas.TopicResults, schemas.TopicLedgers)...),
			write(schemas.TopicCommands, schemas.TopicKeyUses))},
		{projectorName, with(readRights, group(projectorName), read(projected...))},
		{mailerName, with(readRights,
			group(mailerName), read(with(directory, schemas.TopicMails)...),
			write(schemas.TopicCommands, schemas.TopicDeadLetters))},
		// rebuild, verify-projection
		{"history", with([]Right{read(projected...)}, holdRecords...)},
		// backup
		{"backup", with([]Right{read(schemas.TopicJournal, schemas.TopicSnapshots,
			schemas.TopicCommands, schemas.TopicMatches, schemas.TopicPayments, schemas.TopicLedgers,
			schemas.TopicQuarantine, schemas.TopicDeadLetters, schemas.TopicKeyUses)},
			holdRecords...)},
		// ledger check
		{"check", []Right{
			read(schemas.TopicPayments, schemas.TopicWatches),
			named(kafka.ResourceTopic, kafka.OpDescribe, schemas.TopicJournal),
		}},
		// secrets list, rewrap, drop
		{"rewrap", with(commands,
			read(schemas.TopicEndpoints, schemas.TopicCommands),
			named(kafka.ResourceGroup, kafka.OpDescribe, engineName))},
		// accounts create, keys create without the API
		{"operator", commands},
		// topics cat, tail, describe, plan, check; accounts list
		{"inspect", with(lookInside, all(kafka.OpRead), all(kafka.OpDescribeConfigs), clock,
			describeBrokers)},
		// topics create, plan, check
		{"topics", with(lookInside,
			all(kafka.OpDescribe), all(kafka.OpCreate), all(kafka.OpAlterConfigs), clock,
			describeBrokers)},
	}
}

func with[T any](list []T, more ...T) []T { return append(slices.Clone(list), more...) }

// RoleNames returns the names of the roles.
func RoleNames() (names []string) {
	for _, r := range Roles() {
		names = append(names, r.Name)
	}
	return names
}

// Groups returns the groups that roles join, without the prefix.
func Groups(roles ...string) (groups []string) {
	for _, role := range Roles() {
		for _, right := range role.Rights {
			if slices.Contains(roles, role.Name) && right.Resource == kafka.ResourceGroup &&
				right.Operation == kafka.OpRead {
				groups = append(groups, right.Names...)
			}
		}
	}
	return groups
}

// TransactionalIDs returns the transactional ids of all roles, without the prefix.
func TransactionalIDs(partitions int32) (ids []string) {
	for _, role := range Roles() {
		for _, right := range role.Rights {
			if right.Resource != kafka.ResourceTransactionalID {
				continue
			}
			for _, name := range right.Names {
				if !right.Prefixed {
					ids = append(ids, name)
					continue
				}
				for p := range partitions {
					ids = append(ids, name+strconv.Itoa(int(p)))
				}
			}
		}
	}
	return ids
}

// Access returns the ACLs of the named roles, or of all. A role's user is userPrefix and its name.
func Access(c kafka.Cluster, userPrefix string, names ...string) ([]kafka.ACL, error) {
	for _, name := range names {
		if !slices.Contains(RoleNames(), name) {
			return nil, fmt.Errorf("unknown role %q (known: %s)", name, strings.Join(RoleNames(), ", "))
		}
	}
	var acls []kafka.ACL
	for _, role := range Roles() {
		if len(names) > 0 && !slices.Contains(names, role.Name) {
			continue
		}
		for _, right := range role.Rights {
			acls = append(acls, right.acl(c.Prefix, "User:"+userPrefix+role.Name))
		}
	}
	return acls, nil
}

func (r Right) acl(prefix, principal string) kafka.ACL {
	a := kafka.ACL{
		Principal: principal,
		Resource:  r.Resource,
		Operation: r.Operation,
		Prefixed:  r.Prefixed,
	}
	for _, name := range r.Names {
		if r.Resource != kafka.ResourceCluster && !r.Internal {
			name = prefix + name
		}
		a.Names = append(a.Names, name)
	}
	return a
}

// Grant creates ACLs. Existing ones are left unchanged.
func Grant(ctx context.Context, c kafka.Cluster, acls []kafka.ACL) error {
	if err := c.CreateACLs(ctx, acls); err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	return nil
}

// checkRights returns which topics of its roles the user may not read or write. Without this check,
// a role would start and fail later. Missing topics are a separate fault.
func checkRights(ctx context.Context, c kafka.Cluster, roles []string) (*Fault, error) {
	if len(roles) == 0 {
		return nil, nil
	}
	allowed, err := c.AllowedOnTopics(ctx, TopicNames()...)
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
			" (TOPIC_AUTHORIZATION_FAILED): the work of " + strings.Join(roles, ", ") + " cannot continue",
		Do: "have an administrator run the commands that `lumenhook topics acls` prints",
	}, nil
}

// missing omits topics without information.
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
