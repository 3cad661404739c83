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

// disk makes what the broker answers survive a crash of the machine: an answer leaves only once
// all that was written before it has been synced. Those that come while files are being synced
// share the next round of it, so that what many clients wait for is synced at once. kfake's own
// SyncWrites syncs file by file within its loop, in which everybody waits for everybody's, and
// does not look at errors.
type disk struct {
	dir   string // without links
	watch watcher
	sync  func(path string) error
	fail  func(error) // called for each error
	wake  chan struct{}
	ended chan struct{}

	healed bool          // the logs are whole: a start that fails before that must not keep others
	files  chan struct{} // has room for who syncs files or replaces them

	mu     sync.Mutex
	next   *round // the one that begins after the one under way; nil: nobody waits for one
	failed error  // nothing is answered any more
}

// watcher knows which files and folders in a folder and below were changed.
type watcher interface {
	// Changed returns the paths that were changed since the call before, or since the watcher
	// was made. A change that a write has made is not missed by a call that begins after it.
	Changed() (map[string]struct{}, error)
	Close() error
}

// round is one syncing of all that was changed.
type round struct {
	done chan struct{}
	err  error
}

// syncedAtOnce bounds how many files are synced at the same time.
const syncedAtOnce = 16

// newDisk watches a folder. What is in it already is synced before the first answer: after a kill
// it may be in the page cache alone. If folders cannot be watched here, or files have no second
// names, the error is errors.ErrUnsupported.
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

// settle returns once all that was written before the call is on the disk.
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
		d.wake <- struct{}{} // has room: whoever took the round before has emptied it
	}
	return d.next, nil
}

// close syncs what is left, and ends.
func (d *disk) close() error {
	err := d.settle()
	d.mu.Lock()
	if d.failed == nil {
		d.failed = net.ErrClosed
	}
	next := d.next // that of somebody who came meanwhile
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

// giveUp ends all answers: the kernel reports a failed write once, and a later sync would succeed
// without it.
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

// alone calls work while no round looks at files.
func (d *disk) alone(work func()) {
	d.files <- struct{}{}
	defer func() { <-d.files }()
	work()
}

// syncChanged syncs what was changed. It is called alone.
func (d *disk) syncChanged() error {
	changed, err := d.watch.Changed()
	if err != nil {
		return fmt.Errorf("watching the files of the broker: %w", err)
	}
	var all errgroup.Group
	all.SetLimit(syncedAtOnce)
	for path := range changed {
		all.Go(func() error {
			err := d.sync(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // deleted meanwhile, or renamed: the other name was changed, too
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return d.keepLogs(changed)
}

// keepLogs gives logs that were replaced, and are on the disk now, their second name (logs.go).
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

// syncPath syncs a file or a folder.
func syncPath(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.Sync()
}

// canLink returns an error where the file system of a folder has no links.
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
