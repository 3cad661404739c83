package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// A snapshot contains the files that the broker would leave behind if it were killed at that
// moment. So a start on a copy of them repairs them like after a kill. The broker takes a snapshot
// while it handles no other request. It links segments, which it later only appends to or deletes,
// and records their sizes. It copies all other files.
//
// A client requests a snapshot with AlterReplicaLogDirs. The directory is the name of a new folder
// in the data folder. A request without topics removes it again. If the client was killed, the next
// snapshot or the next start does so. To be able to tell, the client holds a lock of sizesFile. The
// client therefore only needs read access to the folder.
const sizesFile = "sizes.json"

var snapshotFolder = regexp.MustCompile(`^snapshot-\d+$`)

// IsSnapshot reports whether a file in a broker's data folder is the folder of a snapshot.
func IsSnapshot(name string) bool { return snapshotFolder.MatchString(name) }

// Snapshot is a snapshot of a running broker.
type Snapshot struct {
	Dir   string
	held  *os.File
	sizes map[string]int64 // of files that may have grown since, by their names in Dir
}

// Size returns how much of a file belongs to the snapshot, and -1 if none of it does. The file's
// name is relative to Dir.
func (s *Snapshot) Size(name string, has int64) int64 {
	if size, known := s.sizes[name]; known {
		return size
	}
	return has
}

// Remove has the broker remove the snapshot's files.
func (s *Snapshot) Remove(ctx context.Context, admin *kadm.Client) error {
	return errors.Join(s.held.Close(), s.remove(ctx, admin))
}

func (s *Snapshot) remove(ctx context.Context, admin *kadm.Client) error {
	return request(ctx, admin, filepath.Base(s.Dir), kadm.TopicsSet{})
}

func request(ctx context.Context, admin *kadm.Client, name string, topics kadm.TopicsSet) error {
	var moved kadm.AlterReplicaLogDirsReq
	moved.Add(name, topics)
	answers, err := admin.AlterBrokerReplicaLogDirs(ctx, 0, moved)
	answers.Each(func(r kadm.AlterReplicaLogDirsResponse) { err = errors.Join(err, r.Err) })
	return err
}

// TakeSnapshot requests a snapshot from the broker of a data folder.
func TakeSnapshot(ctx context.Context, admin *kadm.Client, dir string) (*Snapshot, error) {
	name := fmt.Sprint("snapshot-", time.Now().UnixNano())
	if err := request(ctx, admin, name, kadm.TopicsSet{"all": {0: {}}}); err != nil {
		return nil, fmt.Errorf("taking a snapshot of the topics (the service's log says why): %w", err)
	}
	s := &Snapshot{Dir: filepath.Join(dir, name)}
	var err error
	if s.held, err = subprocess.TrySharedLock(filepath.Join(s.Dir, sizesFile)); err != nil {
		return nil, errors.Join(err, s.remove(ctx, admin))
	}
	if err := json.NewDecoder(s.held).Decode(&s.sizes); err != nil {
		return nil, errors.Join(err, s.Remove(ctx, admin))
	}
	return s, nil
}

// answerSnapshot takes a snapshot if a request asks for one.
func (b *Broker) answerSnapshot(r kmsg.Request) kmsg.Response {
	req := r.(*kmsg.AlterReplicaLogDirsRequest)
	if len(req.Dirs) != 1 || !snapshotFolder.MatchString(req.Dirs[0].Dir) {
		return nil
	}
	to := filepath.Join(b.dir, req.Dirs[0].Dir)
	var err error
	switch {
	case len(req.Dirs[0].Topics) == 0:
		err = os.RemoveAll(to)
	case b.disk == nil:
		err = b.takeSnapshot(to)
	default:
		b.disk.alone(func() { err = b.takeSnapshot(to) })
	}
	taken := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
	if err != nil {
		b.log.slog.Error("taking a snapshot for a backup", "error", errors.Join(err, os.RemoveAll(to)))
		taken.ErrorCode = kerr.KafkaStorageError.Code
	}
	all := kmsg.NewAlterReplicaLogDirsResponseTopic()
	all.Topic, all.Partitions = "all", append(all.Partitions, taken)
	answer := req.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	answer.Topics = append(answer.Topics, all)
	return answer
}

func (b *Broker) takeSnapshot(to string) error {
	if err := removeSnapshots(b.dir, isHeld); err != nil {
		return err
	}
	sizes := map[string]int64{sizesFile: -1}
	err := filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(b.dir, path)
		ext := filepath.Ext(name)
		switch {
		case err != nil:
			return err
		case snapshotFolder.MatchString(name) || name == beforeDraft || name == beforeDone:
			return fs.SkipDir
		case entry.IsDir():
			return os.Mkdir(filepath.Join(to, name), 0o700)
		case ext == segmentExt || ext == indexExt:
			about, err := entry.Info()
			if err != nil {
				return err
			}
			sizes[name] = about.Size()
			return os.Link(path, filepath.Join(to, name)) // #nosec G122 -- no links to follow
		}
		content, err := os.ReadFile(path) // #nosec G122 -- no links to follow
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), content, 0o600) // #nosec G703 -- of this folder
	})
	if err == nil && b.more != nil {
		err = b.more(to)
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(sizes)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, sizesFile), text, 0o600)
}

// removeSnapshots removes the snapshots of killed clients.
func removeSnapshots(dir string, except func(snapshot string) bool) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); IsSnapshot(e.Name()) && !except(path) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// isHeld reports whether the client of a snapshot still uses it.
func isHeld(snapshot string) bool {
	lock, err := subprocess.TryLock(filepath.Join(snapshot, sizesFile))
	if err == nil {
		_ = lock.Close()
	}
	return errors.Is(err, subprocess.ErrLocked)
}
