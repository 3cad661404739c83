package config

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// submitTimeout bounds the wait for brokers and the engine's answer.
const submitTimeout = 30 * time.Second

// NewID generates an id with a prefix, such as domain.AccountPrefix.
func NewID(prefix string) string {
	var entropy [16]byte
	rand.Read(entropy[:])
	return domain.NewID(prefix, entropy)
}

// Engine submits commands to the engine of a service, without the API. Its Submit may be
// called from any goroutine.
type Engine struct {
	commands *commands.Client
	ended    chan struct{}
}

// OpenEngine connects to the brokers, for as long as ctx lasts. The caller closes the
// Engine.
func OpenEngine(ctx context.Context, cluster kafka.Cluster) (*Engine, error) {
	c, err := commands.Open(ctx, commands.Config{
		Cluster: cluster,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if forbidden(err) {
		return nil, errForbidden{err}
	}
	if err != nil {
		return nil, fmt.Errorf("reaching the brokers %s: %w", strings.Join(cluster.Brokers, ", "), err)
	}
	e := &Engine{commands: c, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		_ = c.Run(context.WithoutCancel(ctx)) // a command without an answer returns why
	}()
	return e, nil
}

// Close cancels the waiting commands.
func (e *Engine) Close() {
	e.commands.Close()
	<-e.ended
}

// Submit submits a command and returns its answer. It may be unknown whether a command
// arrived; a repeat is the same command.
func (e *Engine) Submit(
	ctx context.Context, body domain.CommandBody, accountID string,
) (domain.Answer, error) {
	command := domain.Command{
		ID:             NewID(domain.CommandPrefix),
		AccountID:      accountID,
		IssuedAtMillis: time.Now().UnixMilli(),
		Body:           body,
	}
	for {
		result, err := e.commands.Submit(ctx, command)
		var unconfirmed commands.ErrNotConfirmed
		switch {
		case err == nil && result.Answer.Rejection != nil:
			return result.Answer, errors.New(result.Answer.Rejection.Detail)
		case err == nil:
			return result.Answer, nil
		case errors.As(err, &unconfirmed) && forbidden(err): // nothing was written
			return domain.Answer{}, errForbidden{unconfirmed.Cause}
		case !errors.As(err, &unconfirmed) || ctx.Err() != nil:
			return domain.Answer{}, fmt.Errorf("no engine has answered: "+
				"is one running on these brokers? %w", err)
		}
	}
}

// errForbidden means that the brokers know the user, who lacks a permission.
type errForbidden struct{ cause error }

func (e errForbidden) Error() string {
	return "the brokers do not let --kafka-user give commands: it needs the rights of the role " +
		"operator, or of rewrap for secrets (`lumenhook topics acls` names them): " +
		e.cause.Error()
}

func (e errForbidden) Unwrap() error { return e.cause }

// forbidden reports whether the brokers denied a permission, which retrying does not
// change.
func forbidden(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed)
}

// Submit submits one command to the engine of the service.
func (s *Service) Submit(
	ctx context.Context, body domain.CommandBody, accountID string,
) (domain.Answer, error) {
	cluster, err := s.Cluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return domain.Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, submitTimeout)
	defer cancel()
	e, err := OpenEngine(ctx, cluster)
	if err != nil {
		return domain.Answer{}, err
	}
	defer e.Close()
	return e.Submit(ctx, body, accountID)
}

const (
	// maxAccounts bounds the accounts that are held to list them.
	maxAccounts = 1_000_000
	// accountsAtOnce bounds the records that are read at once.
	accountsAtOnce = 1000
)

// Accounts returns all accounts of the deployment, the oldest first, as their table has them.
func (s *Service) Accounts(ctx context.Context) ([]domain.Account, error) {
	cluster, err := s.Cluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	found, err := readAccounts(ctx, cluster)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil, fmt.Errorf("the brokers do not let --kafka-user read the table of accounts: "+
			"it needs the rights of the role inspect (`lumenhook topics acls` names them): %w", err)
	case err != nil:
		return nil, fmt.Errorf("reading the table of accounts: %w", err)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b domain.Account) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMillis, b.CreatedAtMillis), cmp.Compare(a.ID, b.ID))
	}), nil
}

// readAccounts reads the table up to where it ends now.
func readAccounts(
	ctx context.Context, cluster kafka.Cluster,
) (map[string]domain.Account, error) {
	starts, ends, err := cluster.Extent(ctx, schemas.TopicAccounts)
	if err != nil {
		return nil, err
	}
	found := make(map[string]domain.Account)
	err = cluster.ReadBetween(ctx, schemas.TopicAccounts, starts, ends, accountsAtOnce,
		func(r kafka.Record) error {
			a, err := schemas.DecodeAccount(schemas.Read(r.Value, r))
			if err != nil {
				return fmt.Errorf("record %d of partition %d: %w", r.Offset, r.Partition, err)
			}
			found[a.ID] = a
			if len(found) > maxAccounts {
				return fmt.Errorf("there are more than %d: read the topic %q in parts, with `lumenhook "+
					"topics cat`", maxAccounts, schemas.TopicAccounts)
			}
			return nil
		})
	return found, err
}
