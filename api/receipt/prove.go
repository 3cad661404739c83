package receipt

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/lumenhook/lumenhook/domain"
)

// ErrIncomplete means that hashes of the log are missing.
var ErrIncomplete = errors.New("receipt: hashes of the log are missing")

// Hashes returns the hashes that leaves added to a log, by leaf number (domain.LogEntry.Hashes).
// The result omits missing leaves.
type Hashes func(leaves []uint64) (map[uint64][]byte, error)

// ReadHashes implements tlog.HashReader. The leaf that completes a subtree stores the subtree's
// hash, at the index of its level.
func (h Hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	type place struct {
		leaf  uint64
		level int
	}
	places, leaves := make([]place, len(indexes)), make([]uint64, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		places[i] = place{uint64(n+1) << level, level} // #nosec G115 -- n is not negative
		leaves[i] = places[i].leaf
	}
	by, err := h(leaves)
	if err != nil {
		return nil, err
	}
	hashes := make([]tlog.Hash, len(indexes))
	for i, p := range places {
		of, begin := by[p.leaf], p.level*tlog.HashSize
		if len(of) < begin+tlog.HashSize {
			return nil, fmt.Errorf("%w: level %d of leaf %d", ErrIncomplete, p.level, p.leaf)
		}
		hashes[i] = tlog.Hash(of[begin:])
	}
	return hashes, nil
}

// Logged is an attempt and the number of its leaf. Numbers start at 1.
type Logged struct {
	Record domain.AttemptRecord
	Number uint64
}

// Prove proves attempts of a log with size leaves, and signs the checkpoint with each key. If
// earlier is not 0, it also proves that the log extends its first earlier leaves.
func Prove(
	name Name, size, earlier uint64, attempts []Logged, hashes Hashes, keys []domain.Secret,
) (Log, error) {
	n := int64(size) // #nosec G115 -- a count of facts
	root, err := tlog.TreeHash(n, hashes)
	if err != nil {
		return Log{}, err
	}
	log := Log{Attempts: make([]Attempt, len(attempts))}
	for i, a := range attempts {
		if a.Number == 0 || a.Number > size {
			return Log{}, fmt.Errorf("%w: leaf %d, and the log has %d", ErrIncomplete, a.Number, size)
		}
		leaf := int64(a.Number - 1) // #nosec G115 -- at most size
		proof, err := tlog.ProveRecord(n, leaf, hashes)
		if err != nil {
			return Log{}, err
		}
		err = tlog.CheckRecord(proof, n, root, leaf, tlog.RecordHash(a.Record.Text()))
		if err != nil {
			return Log{}, fmt.Errorf("receipt: attempt %d of %s in the history is not what was logged: %w",
				a.Record.Number, a.Record.EventID, err)
		}
		log.Attempts[i] = show(a.Record, leaf, proof)
	}
	if earlier > 0 && earlier <= size {
		had := int64(earlier) // #nosec G115 -- at most size
		if log.Earlier, err = proveEarlier(n, had, hashes); err != nil {
			return Log{}, err
		}
	}
	log.Checkpoint, err = Checkpoint{Log: name, Tree: tlog.Tree{N: n, Hash: root}}.sign(keys)
	return log, err
}

func proveEarlier(size, earlier int64, hashes Hashes) (*Earlier, error) {
	root, err := tlog.TreeHash(earlier, hashes)
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ProveTree(size, earlier, hashes)
	return &Earlier{Size: earlier, Root: root, Proof: nonNil(proof)}, err
}
