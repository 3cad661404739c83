package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"
)

// disk makes acknowledged data survive a crash of the machine: a response is sent only after
// everything written before it has been synced. Responses that arrive during a sync share the next
// round, so one sync serves many clients. kfake's own SyncWrites syncs file by file in its main
// loop, which blocks every client, and ignores errors.
type disk struct {
	dir   string // symbolic links resolved
	watch watcher
	sync  func(path string) error
	fail  func(error)
	wake  chan struct{}
	ended chan struct{}

	healed bool          // logs have been repaired; until then they must not get a second name
	files  chan struct{} // a semaphore, held while files are synced or replaced

	mu     sync.Mutex
	next   *round // the round after the current one; nil if no response waits for it
	failed error  // if set, no more responses are sent
}

// watcher tracks changes to files and directories in a directory tree.
type watcher interface {
	// Changed returns the paths that changed since the previous call, or since the watcher was
	// created. It reports every write that completed before the call.
	Changed() (map[string]struct{}, error)
	Close() error
}

type round struct {
	done chan struct{}
	err  error
}

const syncedAtOnce = 16

// newDisk watches dir. The existing contents are synced before the first response, because after a
// kill they may only be in the page cache. The error is errors.ErrUnsupported if directories cannot
// be watched or the file system has no hard links.
func newDisk(dir string, sync func(string) error, fail func(error)) (*disk, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	if err := canLink(dir); err != nil {
		return nil, errors.Join(errors.ErrUnsupported, err)
	}
	watch, err := watchFolder(dir)
	if err != nil {
		return nil, err
	}
	d := &disk{
		dir:   dir,
		watch: watch,
		sync:  sync,
		fail:  fail,
		wake:  make(chan struct{}, 1),
		ended: make(chan struct{}),
		files: make(chan struct{}, 1),
	}
	if err := sync(filepath.Dir(dir)); err != nil {
		return nil, errors.Join(err, watch.Close())
	}
	go d.run()
	return d, nil
}

// settle returns once everything written before the call is on disk.
func (d *disk) settle() error {
	r, err := d.join()
	if err != nil {
		return err
	}
	<-r.done
	return r.err
}

func (d *disk) join() (*round, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed != nil {
		return nil, d.failed
	}
	if d.next == nil {
		d.next = &round{done: make(chan struct{})}
		d.wake <- struct{}{} // never blocks: run has received the previous round's wake-up
	}
	return d.next, nil
}

func (d *disk) close() error {
	err := d.settle()
	d.mu.Lock()
	if d.failed == nil {
		d.failed = net.ErrClosed
	}
	next := d.next // joined by responses that arrived in the meantime
	d.mu.Unlock()
	if next != nil {
		<-next.done
	}
	close(d.wake)
	<-d.ended
	return errors.Join(err, d.watch.Close())
}

func (d *disk) run() {
	defer close(d.ended)
	for range d.wake {
		d.mu.Lock()
		r := d.next
		d.next = nil
		r.err = d.failed
		d.mu.Unlock()
		if r.err == nil {
			d.alone(func() { r.err = d.syncChanged() })
		}
		if r.err != nil {
			d.giveUp(r.err)
		}
		close(r.done)
	}
}

// giveUp fails all later responses. The kernel reports a failed write only once, so a later sync
// would succeed without the data.
func (d *disk) giveUp(err error) {
	d.mu.Lock()
	first := d.failed == nil
	if first {
		d.failed = err
	}
	d.mu.Unlock()
	if first {
		d.fail(err)
	}
}

// alone calls work while no sync is running.
func (d *disk) alone(work func()) {
	d.files <- struct{}{}
	defer func() { <-d.files }()
	work()
}

// syncChanged syncs the changed files. It must not be called concurrently.
func (d *disk) syncChanged() error {
	changed, err := d.watch.Changed()
	if err != nil {
		return fmt.Errorf("watching the broker's files: %w", err)
	}
	var all errgroup.Group
	all.SetLimit(syncedAtOnce)
	for path := range changed {
		all.Go(func() error {
			err := d.sync(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // deleted, or renamed and reported under the new name
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return d.keepLogs(changed)
}

// keepLogs gives replaced logs that are now on disk their second name (logs.go).
func (d *disk) keepLogs(changed map[string]struct{}) error {
	if !d.healed {
		return nil
	}
	for _, log := range []string{groupsLog, producersLog} {
		path := filepath.Join(d.dir, log)
		if _, is := changed[path]; !is {
			continue
		}
		replaced, err := keepLog(path, d.sync)
		if err == nil && replaced {
			err = d.sync(d.dir)
		}
		if err != nil {
			return fmt.Errorf("the log %s: %w", path, err)
		}
	}
	return nil
}

func syncPath(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Sync()
}

// canLink returns an error if dir's file system has no hard links.
func canLink(dir string) error {
	file, err := os.CreateTemp(dir, "link-*.tmp")
	if err != nil {
		return err
	}
	name := file.Name()
	linked := os.Link(name, name+".tmp")
	if linked == nil {
		linked = os.Remove(name + ".tmp")
	}
	return errors.Join(linked, file.Close(), os.Remove(name))
}
