package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// kfake ends a transaction with several writes: a marker in each partition, an entry in groups.log
// for each offset, and an entry in pids.log. A kill or a power cut may leave only some of them. So
// a start completes them before kfake reads the data folder:
//
//   - If any of these writes says that a transaction is committed, it is committed and gets the
//     missing markers and offsets. Its records exist, because the producer received a response
//     for each of them, and for its offsets (offsets.go), before it requested the commit.
//   - All other transactions without a marker are aborted.
//
// The producer id and the epoch identify a committed transaction, because every commit increments
// the epoch (KIP-890), and the broker rejects commits that don't (refuseOldCommits). Everything
// that a start writes confirms the same decision, so an interrupted start can be repeated.
//
// After a clean close, kfake itself knows the open transactions, and they can continue.

// ending is how a producer's newest transaction ended.
type ending struct {
	epoch  int16
	commit bool
}

type endings map[int64]ending

// note adds an ending unless a newer one is known. If a commit and an abort have the same epoch,
// the abort comes from a client without KIP-890 and is older.
func (e endings) note(producer int64, is ending) {
	was, known := e[producer]
	if !known || is.epoch > was.epoch || is.epoch == was.epoch && is.commit {
		e[producer] = is
	}
}

type producer struct {
	epoch         int16
	committed     bool   // kfake considers the last transaction committed
	transactional string // transactional id
	timeoutMillis int32
}

type producerEntry struct {
	Type    string `json:"type"` // init, endtx or timeout
	ID      int64  `json:"pid"`
	Epoch   int16  `json:"epoch"`
	TxnID   string `json:"txid,omitempty"`
	Timeout int32  `json:"timeout,omitempty"`
	Commit  *bool  `json:"commit,omitempty"`
}

// endTransactions ends all transactions that a kill left open.
func endTransactions(dir string, found *scan) error {
	producers, err := readProducers(dir, found.ended)
	if err != nil {
		return err
	}
	noted, err := readNoted(dir)
	if err != nil {
		return err
	}
	groups, err := readPositions(dir, noted)
	if err != nil {
		return err
	}
	for _, n := range noted {
		if groups.appliedOf(n) {
			found.ended.note(n.Producer, ending{n.Epoch, true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.partitions)) {
		if err := found.partitions[name].endOpen(found.ended); err != nil {
			return fmt.Errorf("ending transactions in %s: %w", name, err)
		}
	}
	if err := groups.apply(dir, noted, found.ended); err != nil {
		return err
	}
	return fence(dir, producers, found.ended)
}

func readProducers(dir string, ended endings) (map[int64]producer, error) {
	producers := make(map[int64]producer)
	err := eachEntry(filepath.Join(dir, producersLog), func(data []byte) {
		var e producerEntry
		if json.Unmarshal(data, &e) != nil {
			return // kfake skips it as well
		}
		p := producers[e.ID]
		p.epoch = e.Epoch
		switch e.Type {
		case "init":
			p.transactional, p.timeoutMillis = e.TxnID, e.Timeout
			p.committed = e.Commit != nil && *e.Commit
		case "endtx":
			if e.Commit != nil {
				ended.note(e.ID, ending{e.Epoch, *e.Commit})
			}
		}
		producers[e.ID] = p
	})
	return producers, err
}

// endOpen writes a marker for each open transaction, and adds the aborted ones to ended.
func (p *partition) endOpen(ended endings) error {
	if len(p.open) == 0 {
		return nil
	}
	var markers []byte
	first := p.end
	for _, id := range slices.Sorted(maps.Keys(p.open)) {
		epoch := p.open[id]
		commit := ended[id] == ending{epoch, true}
		ended.note(id, ending{epoch, commit})
		markers = append(markers, markerBatch(p.end, id, epoch, commit)...)
		p.end++
	}
	// A separate segment leaves a damaged tail of the previous one unchanged.
	return os.WriteFile(filepath.Join(p.folder, strconv.FormatInt(first, 10)+segmentExt), markers,
		0o600)
}

// fence adds the endings to pids.log and increments the producers' epochs. If a client survives the
// broker and repeats its EndTxn, it then gets the right response.
func fence(dir string, producers map[int64]producer, ended endings) error {
	var entries []any
	for _, id := range slices.Sorted(maps.Keys(ended)) {
		is, at := ended[id], producers[id]
		passed := is.epoch < at.epoch-1 || is.epoch == at.epoch-1 && is.commit == at.committed
		if at.transactional == "" || passed || is.epoch == math.MaxInt16 {
			continue
		}
		entries = append(entries, producerEntry{
			Type: "init", ID: id, Epoch: is.epoch + 1, TxnID: at.transactional,
			Timeout: at.timeoutMillis, Commit: &is.commit,
		})
	}
	return appendEntries(filepath.Join(dir, producersLog), entries)
}

// offsetsFolder contains the offsets of transactions (offsets.go), one file per transactional id.
const offsetsFolder = "transaction-offsets"

// noted is the file with a transaction's offsets.
type noted struct {
	Producer int64      `json:"producer"`
	Epoch    int16      `json:"epoch"`
	AtMillis int64      `json:"at"` // when the last offset was added
	Offsets  []position `json:"offsets"`
}

// position is an entry of groups.log for an offset.
type position struct {
	Type      string  `json:"type"` // commit or delete
	Group     string  `json:"g"`
	Topic     string  `json:"t,omitempty"`
	Partition int32   `json:"p,omitempty"`
	Offset    int64   `json:"o,omitempty"`
	Epoch     int32   `json:"e,omitempty"`
	Metadata  *string `json:"m,omitempty"`
	AtMillis  *int64  `json:"lc,omitempty"`
}

type positionKey struct {
	group, topic string
	partition    int32
}

func (p position) key() positionKey { return positionKey{p.Group, p.Topic, p.Partition} }

type positions map[positionKey]position

// readNoted reads the offsets of the last transaction of each transactional id. It skips incomplete
// files, because their transactions' commits were not requested.
func readNoted(dir string) (all []noted, err error) {
	files, err := filesIn(filepath.Join(dir, offsetsFolder), ".json")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var n noted
		if json.Unmarshal(content, &n) == nil {
			all = append(all, n)
		}
	}
	return all, err
}

// readPositions reads groups.log. It isn't needed if there are no noted offsets.
func readPositions(dir string, all []noted) (positions, error) {
	latest := make(positions)
	if len(all) == 0 {
		return latest, nil
	}
	err := eachEntry(filepath.Join(dir, groupsLog), func(data []byte) {
		var p position
		if json.Unmarshal(data, &p) == nil && (p.Type == "commit" || p.Type == "delete") {
			latest[p.key()] = p
		}
	})
	return latest, err
}

// appliedOf reports whether any offset of a transaction was applied, which kfake only does in a
// commit.
func (latest positions) appliedOf(n noted) bool {
	return slices.ContainsFunc(n.Offsets, func(p position) bool {
		is := latest[p.key()]
		return is.Type == "commit" && is.Offset == p.Offset && is.AtMillis != nil &&
			*is.AtMillis >= n.AtMillis
	})
}

// apply writes the missing offsets of committed transactions. Offsets that a group has committed or
// deleted since are kept.
func (latest positions) apply(dir string, all []noted, ended endings) error {
	var entries []any
	for _, n := range all {
		if ended[n.Producer] != (ending{n.Epoch, true}) {
			continue
		}
		for _, p := range n.Offsets {
			is, known := latest[p.key()]
			later := is.Type == "delete" || is.AtMillis != nil && *is.AtMillis > n.AtMillis
			if known && (later || is.Offset == p.Offset) {
				continue
			}
			p.AtMillis = &n.AtMillis
			entries = append(entries, p)
		}
	}
	return appendEntries(filepath.Join(dir, groupsLog), entries)
}
