package devnet

import "github.com/cockroachdb/pebble/v2/vfs"

// pageCacheFS writes through to the operating system and skips the fsync.
//
// Pebble knows two ways to commit. An unsynced commit may return while its record is still in
// the process's memory, where a kill loses it; a synced one returns after write and fsync. The
// network needs what lies between: written, so that the death of the process loses nothing it
// served, without the cost of a disk flush in every ledger. A synced commit on this file system
// is that.
type pageCacheFS struct{ vfs.FS }

func (p pageCacheFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return pageCached(p.FS.Create(name, category))
}

func (p pageCacheFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (vfs.File, error) {
	return pageCached(p.FS.OpenReadWrite(name, category, opts...))
}

func (p pageCacheFS) OpenDir(name string) (vfs.File, error) {
	return pageCached(p.FS.OpenDir(name))
}

func (p pageCacheFS) ReuseForWrite(
	oldname, newname string, category vfs.DiskWriteCategory,
) (vfs.File, error) {
	return pageCached(p.FS.ReuseForWrite(oldname, newname, category))
}

// Unwrap lets Pebble find the file system below.
func (p pageCacheFS) Unwrap() vfs.FS { return p.FS }

func pageCached(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return pageCachedFile{f}, nil
}

type pageCachedFile struct{ vfs.File }

func (pageCachedFile) Sync() error                { return nil }
func (pageCachedFile) SyncData() error            { return nil }
func (pageCachedFile) SyncTo(int64) (bool, error) { return true, nil }
