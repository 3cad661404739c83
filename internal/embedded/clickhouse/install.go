package clickhouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/deploy"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const (
	// CacheDirVariable overrides the folder for installed engines.
	CacheDirVariable = "LUMENHOOK_CACHE_DIR"

	recordName = "verified.json"
	installMax = 20 * time.Minute
	// The archive in npm's cache and the unpacked package, with a margin.
	installNeedsBytes = 900 << 20
)

// Options configures where the library is installed and how its download is reported.
type Options struct {
	InstalledOnly bool // return ErrNotInstalled instead of downloading
	// Default: LUMENHOOK_CACHE_DIR, or else "lumenhook" in the user's cache folder.
	CacheDir string
	Archive  string       // an archive of the npm package (`npm pack`) that Ensure installs instead
	Progress io.Writer    // may be nil; a terminal gets one updating line, anything else plain lines
	Logger   *slog.Logger // may be nil
}

// Locate returns the path of the installed, verified library. It never downloads: if the library is
// missing, the error is ErrNotInstalled.
func Locate(opts Options) (string, error) {
	in, err := newInstaller(opts)
	if err != nil {
		return "", err
	}
	return in.locate()
}

// Ensure is like Locate, but installs the library if it is missing: from opts.Archive, or with npm.
// Concurrent calls install it once, even from several processes.
func Ensure(ctx context.Context, opts Options) (string, error) {
	in, err := newInstaller(opts)
	if err != nil {
		return "", err
	}
	return in.ensure(ctx)
}

type installer struct {
	pin      deploy.Engine
	root     string // contains one folder per engine and the lock files
	archive  string // empty means with npm
	progress io.Writer
	log      *slog.Logger
}

func newInstaller(opts Options) (*installer, error) {
	platform, err := libraryPlatform()
	if err != nil {
		return nil, err
	}
	pin, err := deploy.ClickHouseEngine(platform)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; %s", ErrUnsupportedPlatform, err, otherWays)
	}
	root, err := cacheRoot(opts.CacheDir)
	if err != nil {
		return nil, err
	}
	return &installer{
		pin: pin, root: root, archive: opts.Archive, progress: opts.Progress,
		log: orDiscard(opts.Logger),
	}, nil
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// cacheRoot returns the folder for engines. It is absolute, because the child runs in another
// working directory.
func cacheRoot(dir string) (string, error) {
	if dir == "" {
		dir = os.Getenv(CacheDirVariable)
	}
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding a cache folder for the ClickHouse engine: %w; set %s", err,
				CacheDirVariable)
		}
		dir = filepath.Join(user, "lumenhook")
	}
	abs, err := filepath.Abs(filepath.Join(dir, "clickhouse"))
	if err != nil {
		return "", fmt.Errorf("making the cache folder %s absolute: %w", dir, err)
	}
	return abs, nil
}

func libraryPlatform() (string, error) {
	if !libraryBuiltIn {
		return "", fmt.Errorf("%w: this build leaves out the engine's loader (build tag noengine); %s",
			ErrUnsupportedPlatform, otherWays)
	}
	if runtime.GOOS == "linux" {
		maps, err := os.ReadFile("/proc/self/maps")
		if err == nil && strings.Contains(string(maps), "/ld-musl-") {
			return "", fmt.Errorf("%w: it needs glibc, and this system runs on musl; %s",
				ErrUnsupportedPlatform, otherWays)
		}
	}
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	suffix := map[string]string{"linux": "-gnu"}[runtime.GOOS]
	return runtime.GOOS + "-" + arch + suffix, nil
}

func (in *installer) name() string    { return in.pin.Version + "-" + in.pin.Platform }
func (in *installer) dir() string     { return filepath.Join(in.root, in.name()) }
func (in *installer) library() string { return filepath.Join(in.dir(), in.pin.Library) }

func (in *installer) locate() (string, error) {
	if err := in.verify(in.dir()); err != nil {
		return "", err
	}
	return in.library(), nil
}

func (in *installer) ensure(ctx context.Context) (string, error) {
	lib, err := in.locate()
	if !errors.Is(err, ErrNotInstalled) {
		return lib, err
	}
	ctx, cancel := context.WithTimeout(ctx, installMax)
	defer cancel()
	// root may install the engine for the user of a service, whatever its umask is.
	_, found := os.Stat(in.root)
	err = os.MkdirAll(in.root, 0o755) // #nosec G301
	if err == nil && found != nil {
		err = os.Chmod(in.root, 0o755) // #nosec G302
	}
	if err != nil {
		return "", fmt.Errorf("making the cache folder for the ClickHouse engine: %w; set %s to a "+
			"folder that can be written", err, CacheDirVariable)
	}
	lock, err := subprocess.Lock(ctx, in.dir()+".lock")
	if err != nil {
		return "", fmt.Errorf("waiting for another process that installs the ClickHouse engine "+
			"(%s.lock): %w", in.dir(), err)
	}
	defer lock.Close()
	// Another process may have installed it while this one waited for the lock.
	if lib, err := in.locate(); !errors.Is(err, ErrNotInstalled) {
		return lib, err
	}
	if err := in.install(ctx); err != nil {
		return "", err
	}
	return in.locate()
}

// install downloads the package into a temporary folder next to the final one, and renames it once
// it is verified. Since the caller holds the lock, other temporary folders for this engine are
// abandoned.
func (in *installer) install(ctx context.Context) error {
	leftovers, _ := filepath.Glob(filepath.Join(in.root, ".install-"+in.name()+"-*"))
	for _, dir := range leftovers {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing an unfinished installation: %w", err)
		}
	}
	if err := in.requireSpace(); err != nil {
		return err
	}
	staging, err := os.MkdirTemp(in.root, ".install-"+in.name()+"-")
	if err != nil {
		return fmt.Errorf("making a folder to install the ClickHouse engine in: %w", err)
	}
	defer os.RemoveAll(staging)
	ready := filepath.Join(staging, "ready")
	if err := os.Mkdir(ready, 0o755); err != nil { // #nosec G301 -- see ensure
		return fmt.Errorf("installing the ClickHouse engine: %w", err)
	}
	if in.archive != "" {
		err = in.unpack(filepath.Join(ready, in.pin.Library))
	} else {
		err = in.download(ctx, staging, ready)
	}
	if err != nil {
		return err
	}
	if err := in.verify(ready); err != nil {
		return err
	}
	return in.publish(ready)
}

func (in *installer) download(ctx context.Context, staging, ready string) error {
	if err := in.fetch(ctx, staging); err != nil {
		return err
	}
	fetched := filepath.Join(staging, "node_modules", filepath.FromSlash(in.pin.Package),
		in.pin.Library)
	if err := os.Rename(fetched, filepath.Join(ready, in.pin.Library)); err != nil {
		return fmt.Errorf("the package %s %s holds no %s: %w", in.pin.Package, in.pin.Version,
			in.pin.Library, err)
	}
	return nil
}

// publish makes a verified folder readable for all users, syncs it and moves it to its final
// location.
func (in *installer) publish(ready string) error {
	err := errors.Join(os.Chmod(ready, 0o755), os.Chmod(filepath.Join(ready, in.pin.Library), 0o644),
		os.Chmod(filepath.Join(ready, recordName), 0o644)) // #nosec G302 -- the files are public
	if err != nil {
		return fmt.Errorf("installing the ClickHouse engine: %w", err)
	}
	for _, name := range []string{in.pin.Library, recordName, "."} {
		if err := syncFile(filepath.Join(ready, name)); err != nil {
			return fmt.Errorf("writing the ClickHouse engine to disk: %w", err)
		}
	}
	// If the final folder exists, it contains no library; otherwise that would have been used.
	if err := os.RemoveAll(in.dir()); err != nil {
		return fmt.Errorf("replacing an incomplete installation: %w", err)
	}
	if err := os.Rename(ready, in.dir()); err != nil {
		return fmt.Errorf("moving the ClickHouse engine into place: %w", err)
	}
	return syncFile(in.root)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// record is the result of a full check, so that the next start doesn't have to repeat it: hashing
// 566 MB takes 1.6 s.
type record struct {
	SHA256       string `json:"sha256"`
	SizeBytes    int64  `json:"sizeBytes"`
	ModTimeNanos int64  `json:"modTimeNanos"`
}

// verify accepts the library if the folder's record matches the pin and the file. Otherwise it
// hashes the library and updates the record.
func (in *installer) verify(dir string) error {
	lib := filepath.Join(dir, in.pin.Library)
	info, err := os.Stat(lib)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w at %s", ErrNotInstalled, lib)
	}
	if err != nil {
		return fmt.Errorf("looking at the ClickHouse engine: %w", err)
	}
	want := record{
		SHA256:       in.pin.LibrarySHA256,
		SizeBytes:    info.Size(),
		ModTimeNanos: info.ModTime().UnixNano(),
	}
	recordPath := filepath.Join(dir, recordName)
	if b, err := os.ReadFile(recordPath); err == nil {
		var got record
		if json.Unmarshal(b, &got) == nil && got == want {
			return nil
		}
	}
	sum, err := fileSHA256(lib)
	if err != nil {
		return fmt.Errorf("hashing the ClickHouse engine: %w", err)
	}
	if sum != in.pin.LibrarySHA256 {
		return fmt.Errorf("%w: %s has SHA-256 %s, pinned is %s; remove %s and start again, or %s",
			ErrHashMismatch, lib, sum, in.pin.LibrarySHA256, dir, otherWays)
	}
	b, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if err := writeFileAtomic(recordPath, b, 0o644); err != nil {
		// An unwritable cache only costs a hash at every start.
		in.log.Warn("the check of the ClickHouse engine cannot be recorded; every start repeats it",
			"err", err)
	}
	return nil
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// writeFileAtomic replaces path by renaming, so that readers never see a partial file.
func writeFileAtomic(path string, b []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (in *installer) requireSpace() error {
	var st unix.Statfs_t
	if err := unix.Statfs(in.root, &st); err != nil {
		return fmt.Errorf("asking for the free space of %s: %w", in.root, err)
	}
	free := uint64(st.Bavail) * uint64(st.Bsize) //nolint:unconvert // signed on other systems
	if free < installNeedsBytes {
		return diskFull(in.root,
			fmt.Sprintf("%d MB are free, %d MB are needed", free>>20, installNeedsBytes>>20))
	}
	return nil
}

func diskFull(dir, detail string) error {
	return fmt.Errorf("%w in %s: %s; make room, set %s to a folder on another disk, or %s",
		ErrDiskFull, dir, detail, CacheDirVariable, otherWays)
}
