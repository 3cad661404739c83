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

const submitTimeout = 30 * time.Second

// NewID returns a new id with a prefix, such as domain.AccountPrefix.
func NewID(prefix string) string {
	var entropy [16]byte
	rand.Read(entropy[:])
	return domain.NewID(prefix, entropy)
}

// Engine submits commands to the engine without the API. Submit is safe for concurrent use.
type Engine struct {
	commands *commands.Client
	ended    chan struct{}
}

// OpenEngine connects to the brokers. The caller must close the Engine.
func OpenEngine(ctx context.Context, cluster kafka.Cluster) (*Engine, error) {
	c, err := commands.Open(ctx, commands.Config{
		Cluster: cluster,
		Logger:  slog.New(slog.DiscardHandler),
	})
	if forbidden(err) {
		return nil, errForbidden{err}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the brokers %s: %w",
			strings.Join(cluster.Brokers, ", "), err)
	}
	e := &Engine{commands: c, ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		_ = c.Run(context.WithoutCancel(ctx)) // Submit returns the reason if there is no answer
	}()
	return e, nil
}

// Close cancels pending commands.
func (e *Engine) Close() {
	e.commands.Close()
	<-e.ended
}

// Submit submits a command and returns its answer. It retries with the same command id while ctx
// allows, because the command may have arrived.
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
			return domain.Answer{}, fmt.Errorf("no engine has answered; "+
				"is one running on these brokers? %w", err)
		}
	}
}

// errForbidden means that the Kafka user lacks a permission.
type errForbidden struct{ cause error }

func (e errForbidden) Error() string {
	return "permission denied: --kafka-user cannot submit commands; it needs the rights of the role " +
		"operator, or of rewrap for secrets (`lumenhook topics acls` lists them): " +
		e.cause.Error()
}

func (e errForbidden) Unwrap() error { return e.cause }

func forbidden(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) ||
		errors.Is(err, kerr.ClusterAuthorizationFailed)
}

// Submit submits one command to the service's engine.
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
	maxAccounts    = 1_000_000
	accountsAtOnce = 1000
)

// Accounts returns all accounts of the deployment, oldest first.
func (s *Service) Accounts(ctx context.Context) ([]domain.Account, error) {
	cluster, err := s.Cluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	found, err := readAccounts(ctx, cluster)
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return nil, fmt.Errorf("permission denied: --kafka-user cannot read the accounts topic; "+
			"it needs the rights of the role inspect (`lumenhook topics acls` lists them): %w", err)
	case err != nil:
		return nil, fmt.Errorf("reading the accounts topic: %w", err)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b domain.Account) int {
		return cmp.Or(cmp.Compare(a.CreatedAtMillis, b.CreatedAtMillis), cmp.Compare(a.ID, b.ID))
	}), nil
}

// readAccounts reads the accounts topic up to its current end.
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
				return fmt.Errorf("there are more than %d accounts; read the topic %q in parts with "+
					"`lumenhook topics cat`", maxAccounts, schemas.TopicAccounts)
			}
			return nil
		})
	return found, err
}
