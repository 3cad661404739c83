package intake

import (
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// maxBytes bounds the size of commands and matches. The facts that follow from one, with everything
// that its aggregate holds, then fit into journal records, which are at most 1 MiB.
const maxBytes = 256 << 10

// Command decodes a command, or returns why it is invalid. partitionOf returns the partition of a
// key; if it is nil, the partition is not checked.
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

// Match decodes a match, like [Command] a command.
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

// MailOrder decodes the order for a mail, or returns why it is invalid.
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

// Matched decodes what a match matched. It is valid if [Match] says so.
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
		return fmt.Errorf("the record has %d bytes, more than the %d that are taken in", n, maxBytes)
	}
	return nil
}

func belongs(r kafka.Record, aggregate string, partitionOf func(key string) int32) error {
	if string(r.Key) != aggregate {
		return fmt.Errorf("the record's key is %.80q and it concerns %.80q", r.Key, aggregate)
	}
	if partitionOf == nil {
		return nil
	}
	if p := partitionOf(aggregate); p != r.Partition {
		return fmt.Errorf("the record is in partition %d, and %.80q belongs in %d", r.Partition,
			aggregate, p)
	}
	return nil
}
