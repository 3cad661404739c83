package broker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

const (
	parts    = 3
	txnGroup = "a group"
	txnTask  = "task"
)

// cutting contains a folder before a commit, and the commit's writes.
type cutting struct {
	before                  string
	markers                 []string // segments of the partitions
	writes                  map[string][][]byte
	producer                int64
	epoch                   int16
	groupsLog, producersLog string
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[path], err = os.ReadFile(filepath.Join(dir, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func entriesOf(raw []byte) (entries [][]byte) {
	for len(raw) > 0 {
		end := 8 + binary.LittleEndian.Uint32(raw)
		entries, raw = append(entries, raw[:end]), raw[end:]
	}
	return entries
}

// transact writes a transaction with offsets to all partitions, but doesn't end it.
func transact(t *testing.T, c *kgo.Client, value string, positions ...int64) {
	t.Helper()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for p := range int32(parts) {
		records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: []byte(value)})
	}
	if err := acknowledged(t.Context(), c, records...); err != nil {
		t.Fatal(err)
	}
	id, epoch, err := c.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for p, position := range positions { // each in a separate request
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = txnTask, txnGroup, id, epoch
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = int32(p), position
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp, err := req.RequestWith(t.Context(), c)
		if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatal(resp, err)
		}
	}
}

func transactional(t *testing.T, addr string) *kgo.Client {
	t.Helper()
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.TxnOffsetCommit.Int16(), 5) // later versions use topic ids
	return newClient(t, addr, kgo.TransactionalID(txnTask), kgo.MaxVersions(v),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

// newCutting commits a transaction and records the writes of a second commit.
func newCutting(t *testing.T) *cutting {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "broker")
	addr := start(t, dir)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopic(t.Context(), parts, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	c := transactional(t, addr)
	transact(t, c, "first", 1, 1)
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	transact(t, c, "second", 2, 2)
	cut := &cutting{
		before:       killed(t, dir),
		writes:       make(map[string][][]byte),
		groupsLog:    "groups.log",
		producersLog: "pids.log",
	}
	var err error
	if cut.producer, cut.epoch, err = c.ProducerID(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	was := files(t, cut.before)
	for path, is := range files(t, dir) {
		added, appended := bytes.CutPrefix(is, was[path])
		switch {
		case !appended:
			t.Fatalf("the commit has overwritten %s", path)
		case len(added) == 0:
		case strings.HasSuffix(path, ".log"):
			cut.writes[path] = entriesOf(added)
		default:
			cut.writes[path] = [][]byte{added}
			if strings.HasSuffix(path, ".dat") {
				cut.markers = append(cut.markers, path)
			}
		}
	}
	slices.Sort(cut.markers)
	if len(cut.markers) != parts || len(cut.writes) != 2*parts+2 ||
		len(cut.writes[cut.groupsLog]) != 2 || len(cut.writes[cut.producersLog]) != 2 {
		t.Fatalf("a commit has other writes than this test knows: %v",
			slices.Collect(maps.Keys(cut.writes)))
	}
	return cut
}

type diskWrite struct {
	path    string
	content []byte
}

// order returns the writes of a commit that starts with the given partition.
func (c *cutting) order(first int) (all []diskWrite) {
	for i := range parts {
		segment := c.markers[(first+i)%parts]
		index := strings.TrimSuffix(segment, ".dat") + ".idx"
		all = append(all, diskWrite{segment, c.writes[segment][0]}, diskWrite{index, c.writes[index][0]})
	}
	for _, log := range []string{c.groupsLog, c.producersLog} {
		for _, entry := range c.writes[log] {
			all = append(all, diskWrite{log, entry})
		}
	}
	return all
}

// with returns the folder before the commit with some of its writes.
func (c *cutting) with(t *testing.T, writes ...diskWrite) string {
	t.Helper()
	dir := killed(t, c.before)
	for _, w := range writes {
		f, err := os.OpenFile(filepath.Join(dir, w.path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(w.content)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// check starts a broker on a folder and expects either all or nothing of the second transaction.
func (c *cutting) check(t *testing.T, dir, name string, committed bool) {
	t.Helper()
	want, position := []string{"first"}, int64(1)
	if committed {
		want, position = []string{"first", "second"}, 2
	}
	addr := start(t, dir)
	client := newClient(t, addr)
	for p, got := range readParts(t, addr) {
		if !slices.Equal(got, want) {
			t.Fatalf("%s: partition %d has %q, not %q", name, p, got, want)
		}
	}
	offsets, err := kadm.NewClient(client).FetchOffsets(t.Context(), txnGroup)
	if err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		if o, _ := offsets.Lookup(topic, p); o.At != position {
			t.Fatalf("%s: the group is at %d in partition %d, not %d", name, o.At, p, position)
		}
	}
	// The client repeats its EndTxn.
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = txnTask, c.producer, c.epoch,
		true
	resp, err := end.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); (err == nil) != committed {
		t.Fatalf("%s: committed %v, and a client that asks again gets %v", name, committed, err)
	}
}

// checkTwice checks a folder, checks it again after another kill, and then checks that the
// producer can continue.
func (c *cutting) checkTwice(t *testing.T, dir, name string, committed bool) {
	t.Helper()
	c.check(t, dir, name, committed)
	dir = killed(t, dir)
	c.check(t, dir, name+", and another kill", committed)
	addr := start(t, killed(t, dir))
	again := transactional(t, addr)
	transact(t, again, "third", 3, 3)
	if err := again.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := []string{"first", "third"}
	if committed {
		want = []string{"first", "second", "third"}
	}
	for p, got := range readParts(t, addr) {
		if !slices.Equal(got, want) {
			t.Fatalf("%s: partition %d has %q after another commit, not %q", name, p, got, want)
		}
	}
}

func readParts(t *testing.T, addr string) (values [parts][]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	defer cancel()
	from := make(map[int32]kgo.Offset)
	for p := range int32(parts) {
		from[p] = kgo.NewOffset().AtStart()
	}
	c := newClient(t, addr, kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	unread := ends.Offsets()[topic]
	for len(unread) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%v is not read: %v", unread, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values[r.Partition] = append(values[r.Partition], string(r.Value))
			}
			if r.Offset+1 >= unread[r.Partition].At {
				delete(unread, r.Partition)
			}
		})
	}
	return values
}

// A kill may interrupt a commit between any two of its writes, or in the middle of one. The
// commit must be complete in all partitions and offsets, or undone.
func TestACommitThatAKillCutsIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	c := newCutting(t)
	for first := range testkit.Rounds(1, parts) {
		writes := c.order(first)
		for n := range len(writes) + 1 {
			name := fmt.Sprintf("partition %d first, %d writes", first, n)
			check := c.check
			if first == 0 {
				check = c.checkTwice
			}
			check(t, c.with(t, writes[:n]...), name, n > 0)
			if n == len(writes) {
				break
			}
			half := writes[n]
			half.content = half.content[:len(half.content)/2]
			check(t, c.with(t, append(slices.Clone(writes[:n]), half)...), name+" and a half", n > 0)
		}
	}
}

// The same must be true after a power cut, which may leave any part of each file's unsynced data.
func TestACommitThatAPowerCutCutsIsWholeOrNothing(t *testing.T) {
	t.Parallel()
	c := newCutting(t)
	order := c.order(0)
	of := func(path string) (all []diskWrite) {
		for _, w := range order {
			if w.path == path {
				all = append(all, w)
			}
		}
		return all
	}
	n, step := 0, testkit.Rounds(5, 1) // 5 is prime to the numbers of choices
	for markers := range 1 << parts {
		for positions := range 3 {
			for ends := range 3 {
				if n++; n%step != 0 {
					continue
				}
				var some []diskWrite
				for i, segment := range c.markers {
					if markers&(1<<i) != 0 {
						some = append(some, of(segment)...)
					}
				}
				some = append(some, of(c.groupsLog)[:positions]...)
				some = append(some, of(c.producersLog)[:ends]...)
				name := fmt.Sprintf("markers %03b, %d positions, %d entries of producers", markers, positions,
					ends)
				c.check(t, c.with(t, some...), name, len(some) > 0)
			}
		}
	}
}

func TestAStartThatIsCutIsRepeated(t *testing.T) {
	t.Parallel()
	c := newCutting(t)
	for _, committed := range []bool{true, false} {
		var begun []diskWrite
		if committed {
			begun = c.order(0)[:1]
		}
		cut := c.with(t, begun...)
		start(t, cut)
		was := files(t, c.with(t, begun...))
		var written []diskWrite
		for path, is := range files(t, cut) {
			if added, appended := bytes.CutPrefix(is, was[path]); appended && len(added) > 0 &&
				(strings.HasPrefix(path, "partitions") && strings.HasSuffix(path, ".dat") ||
					path == c.groupsLog || path == c.producersLog) {
				written = append(written, diskWrite{path, added})
			}
		}
		for some := range 1 << len(written) {
			writes := slices.Clone(begun)
			for i, w := range written {
				if some&(1<<i) != 0 {
					writes = append(writes, w)
				}
			}
			c.check(t, c.with(t, writes...), fmt.Sprintf("committed %v, %b of %d writes", committed, some,
				len(written)), committed)
		}
	}
}

// A commit's offsets must not undo group offsets that were set after it.
func TestAPositionThatWasSetSinceStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	addr := start(t, dir)
	admin := kadm.NewClient(newClient(t, addr))
	if _, err := admin.CreateTopic(t.Context(), parts, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	c := transactional(t, addr)
	transact(t, c, "first", 5, 5)
	if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	noted := time.Now().UnixMilli()
	for time.Now().UnixMilli() == noted {
	}
	if err := commit(t.Context(), admin, txnGroup, 2); err != nil {
		t.Fatal(err)
	}
	if is := positionOf(t, start(t, killed(t, dir)), txnGroup); is != 2 {
		t.Errorf("the group is at %d, and was set to 2", is)
	}
	var deleted kadm.TopicsSet
	deleted.Add(topic, 0)
	if _, err := admin.DeleteOffsets(t.Context(), txnGroup, deleted); err != nil {
		t.Fatal(err)
	}
	offsets, err := kadm.NewClient(newClient(t, start(t, killed(t, dir)))).FetchOffsets(t.Context(),
		txnGroup)
	if o, is := offsets.Lookup(topic, 0); is && o.At >= 0 {
		t.Errorf("the position was deleted, and is %d (%v)", o.At, err)
	}
}

// A commit that doesn't increment the epoch must be rejected.
func TestCommitsOfBeforeKIP890AreRefused(t *testing.T) {
	addr := start(t, filepath.Join(t.TempDir(), "broker"))
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopic(t.Context(), parts, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.EndTxn.Int16(), 4)
	c := newClient(t, addr, kgo.TransactionalID(txnTask), kgo.MaxVersions(v),
		kgo.DefaultProduceTopic(topic))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := acknowledged(t.Context(), c, kgo.StringRecord("x")); err != nil {
		t.Fatal(err)
	}
	err := c.EndTransaction(t.Context(), kgo.TryCommit)
	if !errors.Is(err, kerr.UnsupportedVersion) {
		t.Errorf("a commit without a new epoch: %v", err)
	}
	if err := c.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Errorf("an abort: %v", err)
	}
}
