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

// disk makes acknowledged data survive a crash of the machine: an answer is sent only after
// everything written before it has been synced. Answers that arrive while files are being synced
// share the next round, so that many clients wait for one sync. kfake's own SyncWrites syncs file
// by file within its loop, which blocks every client, and ignores errors.
type disk struct {
	dir   string // without links
	watch watcher
	sync  func(path string) error
	fail  func(error) // called for each error
	wake  chan struct{}
	ended chan struct{}

	healed bool          // the logs are whole: a start that fails before that must not keep others
	files  chan struct{} // held (by a send) while files are synced or replaced

	mu     sync.Mutex
	next   *round // the one after the current; nil: no answer waits for one
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

// newDisk watches a folder. Its existing content is synced before the first answer: after a kill it
// may be only in the page cache. If folders cannot be watched here, or files have no second names,
// the error is errors.ErrUnsupported.
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
		d.wake <- struct{}{} // has room, because the taker of the previous round has emptied it
	}
	return d.next, nil
}

// close syncs the rest, and ends.
func (d *disk) close() error {
	err := d.settle()
	d.mu.Lock()
	if d.failed == nil {
		d.failed = net.ErrClosed
	}
	next := d.next // of answers that arrived in the meantime
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

// syncChanged syncs the changed files. It is never called concurrently.
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
