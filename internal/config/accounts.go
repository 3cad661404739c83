package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

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
	asking, err := cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	defer asking.Close()
	starts, err := asking.Starts(ctx, schemas.TopicAccounts)
	if err != nil {
		return nil, err
	}
	ends, err := asking.Of(ctx, schemas.TopicAccounts)
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
