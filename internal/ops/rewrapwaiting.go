package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// waiting counts, for each key, the values in commands that no engine has
// decided on yet: they are in no table, and will be.
func (w *walker) waiting(ctx context.Context) (map[uint32]int, error) {
	byKey := make(map[uint32]int)
	from, ends, err := w.extent(ctx, schemas.TopicCommands)
	if err != nil {
		return nil, err
	}
	err = w.cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		committed, err := admin.FetchOffsets(ctx, w.cluster.Prefix+engineGroup)
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // no engine has ever decided
			return fmt.Errorf("asking how far the engine has decided: %w", err)
		}
		for p := range from {
			o, ok := committed.Lookup(w.cluster.Prefix+schemas.TopicCommands, p)
			if ok && o.Err == nil && o.At > from[p] {
				from[p] = o.At
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	count := func(record kafka.Record) error {
		c, err := schemas.DecodeCommand(schemas.Read(record.Value, record))
		if err != nil {
			return nil // the engine reports its problem
		}
		for _, sealed := range sealedIn(c.Body) {
			id, _ := keys.SealedBy(sealed)
			byKey[id]++
		}
		return nil
	}
	return byKey, w.cluster.ReadBetween(ctx, schemas.TopicCommands, from, ends, pollRecords, count)
}

// inUse counts the values that a key sealed. Pending commands are read before the table: commands
// decided in between are in the table.
func (w *walker) inUse(ctx context.Context, id uint32) (int, error) {
	waiting, err := w.waiting(ctx)
	if err != nil {
		return 0, err
	}
	found, err := w.pass(ctx)
	return waiting[id] + found.byKey[id], err
}

// engineGroup is the consumer group of the engines, behind the topics' prefix.
const engineGroup = "engine"

// sealedIn returns the sealed values that a command would put into the state.
func sealedIn(body domain.CommandBody) (sealed [][]byte) {
	headers := func(list []domain.Header) {
		for _, h := range list {
			if h.Sealed != nil {
				sealed = append(sealed, h.Sealed)
			}
		}
	}
	switch b := body.(type) {
	case domain.CreateEndpoint:
		sealed = append(sealed, b.SealedSecret)
		headers(b.Headers)
	case domain.UpdateEndpoint:
		if b.Change.Headers != nil {
			headers(*b.Change.Headers)
		}
	case domain.RotateSecret:
		sealed = append(sealed, b.SealedSecret)
	case domain.ResealSecrets:
		for _, v := range b.Values {
			sealed = append(sealed, v.Sealed)
		}
	case domain.DisableEndpoint, domain.EnableEndpoint, domain.DeleteEndpoint, domain.TestEndpoint,
		domain.ReplayEndpoint, domain.ReplayEvents, domain.ResendEvent, domain.RecordMail:
	case domain.CreateAccount, domain.UpdateAccount, domain.CreateKey, domain.RollKey,
		domain.RevokeKey:
	case domain.CreateWatch, domain.UpdateWatch, domain.DeleteWatch, domain.BackfillWatch,
		domain.RecordCoverage:
	}
	return sealed
}
