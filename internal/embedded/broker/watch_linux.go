package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// folderWatcher uses inotify. An event is queued before the call that made the change returns, so
// reading the queued events misses no earlier write.
type folderWatcher struct {
	fd      int
	root    string
	folders map[int32]string // by watch descriptor
	buffer  []byte
	changed map[string]struct{}
}

const watchedChanges = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR

const eventBytes = unix.SizeofInotifyEvent

// errLink is the error for a symbolic link in the tree, whose target would not be watched.
var errLink = errors.New("a symbolic link")

// watchFolder watches a directory tree. The error is errors.ErrUnsupported if the kernel does not
// allow it.
func watchFolder(root string) (watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, errors.Join(errors.ErrUnsupported, os.NewSyscallError("inotify_init1", err))
	}
	w := &folderWatcher{
		fd:      fd,
		root:    root,
		folders: make(map[int32]string),
		buffer:  make([]byte, 64<<10),
		changed: make(map[string]struct{}),
	}
	if err := w.add(root); err != nil { // such as too many watches, or a symbolic link
		return nil, errors.Join(errors.ErrUnsupported, err, w.Close())
	}
	return w, nil
}

// add watches a directory tree and counts its contents as changed. It adds the watch before it
// reads the directory, so an entry that is created in between is seen twice, never missed.
func (w *folderWatcher) add(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted in the meantime
		}
		if err != nil {
			return err
		}
		w.changed[path] = struct{}{}
		if entry.Type()&fs.ModeSymlink != 0 {
			return &fs.PathError{Op: "watch", Path: path, Err: errLink}
		}
		if !entry.IsDir() {
			return nil
		}
		number, err := unix.InotifyAddWatch(w.fd, path, watchedChanges)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return &fs.PathError{Op: "inotify_add_watch", Path: path, Err: err}
		}
		w.folders[int32(number)] = path
		return nil
	})
}

// Changed implements watcher.
func (w *folderWatcher) Changed() (map[string]struct{}, error) {
	for {
		n, err := unix.Read(w.fd, w.buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			changed := w.changed
			w.changed = make(map[string]struct{})
			return changed, nil
		case err != nil:
			return nil, os.NewSyscallError("read of inotify", err)
		}
		if err := w.take(w.buffer[:n]); err != nil {
			return nil, err
		}
	}
}

func (w *folderWatcher) take(events []byte) error {
	for len(events) >= eventBytes {
		number := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		end := eventBytes + int(binary.NativeEndian.Uint32(events[12:]))
		name := string(bytes.TrimRight(events[eventBytes:end], "\x00"))
		events = events[end:]
		if err := w.happened(number, mask, name); err != nil {
			return err
		}
	}
	return nil
}

func (w *folderWatcher) happened(number int32, mask uint32, name string) error {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return w.add(w.root) // events were dropped: count everything as changed
	}
	folder, known := w.folders[number]
	switch {
	case !known:
		return nil
	case mask&unix.IN_IGNORED != 0: // the directory was deleted
		delete(w.folders, number)
		return nil
	}
	path := filepath.Join(folder, name)
	w.changed[path] = struct{}{}
	if mask&unix.IN_MODIFY == 0 { // an entry was added or removed
		w.changed[folder] = struct{}{}
	}
	if mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
		return w.add(path)
	}
	return nil
}

// Close stops watching.
func (w *folderWatcher) Close() error {
	return os.NewSyscallError("close of inotify", unix.Close(w.fd))
}
