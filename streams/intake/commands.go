package intake

import (
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// maxBytes bounds commands and matches, so that the facts that follow from one, with all data of
// its aggregate, fit into journal records of at most 1 MiB.
const maxBytes = 256 << 10

// Command decodes a command, or returns why it is invalid. If partitionOf is not nil, the record
// must be in the partition of its key.
func Command(r kafka.Record, partitionOf func(key string) int32) (domain.Command, error) {
	if err := checkSize(r); err != nil {
		return domain.Command{}, err
	}
	c, err := schemas.DecodeCommand(schemas.Read(r.Value, r))
	if err != nil {
		return c, err
	}
	return c, errors.Join(belongs(r, c.Body.Aggregate(), partitionOf), c.WellFormed())
}

// Match decodes a match, or returns why it is invalid. partitionOf is as in [Command].
func Match(r kafka.Record, partitionOf func(key string) int32) (domain.MatchInput, error) {
	if err := checkSize(r); err != nil {
		return domain.MatchInput{}, err
	}
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err != nil {
		return in, err
	}
	return in, errors.Join(belongs(r, in.EndpointID, partitionOf), in.WellFormed())
}

// MailOrder decodes a mail order, or returns why it is invalid.
func MailOrder(r kafka.Record) (domain.MailOrder, error) {
	if err := checkSize(r); err != nil {
		return domain.MailOrder{}, err
	}
	o, err := schemas.DecodeMailOrder(schemas.Read(r.Value, r))
	if err != nil {
		return o, err
	}
	return o, errors.Join(belongs(r, o.EndpointID, nil), o.WellFormed())
}

// Matched decodes what was matched by a valid match ([Match]).
func Matched(r kafka.Record, partitionOf func(key string) int32) (schemas.MatchMade, error) {
	if _, err := Match(r, partitionOf); err != nil {
		return schemas.MatchMade{}, err
	}
	return schemas.DecodeMatchMade(schemas.Read(r.Value, r))
}

func checkSize(r kafka.Record) error {
	switch n := len(r.Value); {
	case n == 0:
		return errors.New("the record has no value")
	case n > maxBytes:
		return fmt.Errorf("the record has %d bytes, more than the allowed %d", n, maxBytes)
	}
	return nil
}

func belongs(r kafka.Record, aggregate string, partitionOf func(key string) int32) error {
	if string(r.Key) != aggregate {
		return fmt.Errorf("the record's key is %.80q, but it concerns %.80q", r.Key, aggregate)
	}
	if partitionOf == nil {
		return nil
	}
	if p := partitionOf(aggregate); p != r.Partition {
		return fmt.Errorf("the record is in partition %d, but %.80q belongs in %d", r.Partition,
			aggregate, p)
	}
	return nil
}
