package clickhouse

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/deploy"
)

// The tests run the real npm against a registry on loopback, which serves a package of a few
// bytes with the engine's layout.

const testPackage, testVersion, testLibrary = "@chdb/lib-test", "1.2.3", "libchdb.so"

// testRegistry serves one package. It counts the downloads of its archive.
func testRegistry(t *testing.T, archive []byte) (downloads *atomic.Int64) {
	t.Helper()
	downloads = new(atomic.Int64)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	archivePath := "/" + testPackage + "/-/lib-test-" + testVersion + ".tgz"
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case archivePath:
			downloads.Add(1)
			_, _ = w.Write(archive)
		case "/" + testPackage:
			_ = json.NewEncoder(w).Encode(map[string]any{
				"name": testPackage, "dist-tags": map[string]string{"latest": testVersion},
				"versions": map[string]any{testVersion: map[string]any{
					"name": testPackage, "version": testVersion,
					"dist": map[string]string{
						"tarball":   server.URL + archivePath,
						"integrity": integrity(archive),
					},
				}},
			})
		default:
			http.NotFound(w, r)
		}
	})
	useRegistry(t, server.URL)
	return downloads
}

func useRegistry(t *testing.T, url string) {
	t.Setenv("npm_config_registry", url)
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_fetch_retries", "0")
}

func integrity(b []byte) string {
	sum := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

func testArchive(t *testing.T, library string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	for name, content := range map[string]string{
		"package/package.json":   fmt.Sprintf(`{"name":%q,"version":%q}`, testPackage, testVersion),
		"package/" + testLibrary: library,
	} {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// testInstaller pins the integrity hash of an archive, and a library.
func testInstaller(t *testing.T, root, archiveIntegrity, library string) *installer {
	t.Helper()
	sum := sha256.Sum256([]byte(library))
	manifest, err := json.Marshal(map[string]any{
		"name": "engine", "private": true, "dependencies": map[string]string{testPackage: testVersion}})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := json.Marshal(map[string]any{
		"name": "engine", "lockfileVersion": 3, "requires": true, "packages": map[string]any{
			"": map[string]any{
				"name":         "engine",
				"dependencies": map[string]string{testPackage: testVersion},
			},
			"node_modules/" + testPackage: map[string]string{
				"version":   testVersion,
				"integrity": archiveIntegrity,
			},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return &installer{
		pin: deploy.Engine{
			Platform:      "test",
			Package:       testPackage,
			Version:       testVersion,
			Library:       testLibrary,
			LibrarySHA256: hex.EncodeToString(sum[:]),
			PackageJSON:   manifest,
			LockJSON:      lock,
		},
		root: root,
		log:  orDiscard(nil),
	}
}

// wantRefused checks that an error has the given kind and is a single line that contains the fix.
func wantRefused(t *testing.T, err, kind error, fix string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("want %q, got %v", kind, err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, fix) {
		t.Fatalf("want one line that says %q, got %q", fix, text)
	}
}

func TestConcurrentInstallersInstallOnce(t *testing.T) {
	archive := testArchive(t, "the library")
	downloads := testRegistry(t, archive)
	root := t.TempDir()
	// Left behind by a killed installer.
	leftover := filepath.Join(root, ".install-"+testVersion+"-test-123")
	if err := os.MkdirAll(leftover, 0o755); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var shown bytes.Buffer
	for i := range 4 {
		in := testInstaller(t, root, integrity(archive), "the library")
		if i == 0 {
			in.progress = &shown
		}
		wg.Go(func() {
			lib, err := in.ensure(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(lib); err != nil || string(b) != "the library" {
				t.Errorf("installed %q, %v", b, err)
			}
		})
	}
	wg.Wait()
	if n := downloads.Load(); n != 1 {
		t.Errorf("the archive was downloaded %d times", n)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished installation is still there: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, ".install-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProgressIsPlainLinesOffATerminal(t *testing.T) {
	archive := testArchive(t, "the library")
	testRegistry(t, archive)
	in := testInstaller(t, t.TempDir(), integrity(archive), "the library")
	var shown bytes.Buffer
	in.progress = &shown
	if _, err := in.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text := shown.String(); !strings.Contains(text, "downloaded") || strings.Contains(text, "\r") ||
		!strings.HasSuffix(text, "\n") {
		t.Fatalf("got %q", text)
	}
}

func TestArchiveOfAnotherHashIsRefused(t *testing.T) {
	testRegistry(t, testArchive(t, "a forged library"))
	in := testInstaller(t, t.TempDir(), integrity(testArchive(t, "the library")), "the library")
	_, err := in.ensure(t.Context())
	wantRefused(t, err, ErrHashMismatch, "EINTEGRITY")
	if _, err := in.locate(); !errors.Is(err, ErrNotInstalled) {
		t.Fatalf("after a refused archive: %v", err)
	}
}

func TestLibraryOfAnotherHashIsRefused(t *testing.T) {
	dir := t.TempDir()
	in, err := newInstaller(Options{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(in.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in.library(), []byte("something else"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() (string, error){
		"Locate": func() (string, error) { return Locate(Options{CacheDir: dir}) },
		"Ensure": func() (string, error) { return Ensure(t.Context(), Options{CacheDir: dir}) },
	} {
		lib, err := call()
		if lib != "" {
			t.Errorf("%s gave %s", name, lib)
		}
		wantRefused(t, err, ErrHashMismatch, "remove "+in.dir())
	}
}

func TestChangedLibraryIsHashedAgain(t *testing.T) {
	archive := testArchive(t, "the library")
	testRegistry(t, archive)
	in := testInstaller(t, t.TempDir(), integrity(archive), "the library")
	lib, err := in.ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A file that was touched but not changed is accepted and recorded again.
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(lib, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := in.locate(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib, []byte("THE LIBRARY"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = in.locate()
	wantRefused(t, err, ErrHashMismatch, "pinned is")
}

// A server without npm can install the engine from an archive that was downloaded on another
// machine. Root may install it for the service's user, so everyone must be able to read it.
func TestAnArchiveIsInstalledWithoutNPM(t *testing.T) {
	umask := syscall.Umask(0o077) // as a cautious administrator sets it
	t.Cleanup(func() { syscall.Umask(umask) })
	t.Setenv("PATH", t.TempDir())
	file := filepath.Join(t.TempDir(), "package.tgz")
	root := filepath.Join(t.TempDir(), "cache", "clickhouse")
	in := testInstaller(t, root, "", "the library")
	in.archive = file
	for name, c := range map[string]struct {
		archive []byte
		kind    error
		says    string
	}{
		"no archive":      {[]byte("something else than a tar file"), gzip.ErrHeader, "npm pack " + testPackage + "@" + testVersion},
		"another library": {testArchive(t, "forged"), ErrHashMismatch, "npm pack"},
		"cut short":       {testArchive(t, "the library")[:80], io.ErrUnexpectedEOF, "npm pack"},
	} {
		if err := os.WriteFile(file, c.archive, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := in.ensure(t.Context())
		wantRefused(t, err, c.kind, c.says)
		if left, _ := filepath.Glob(filepath.Join(root, "*"+testVersion+"*", "*")); len(left) != 0 {
			t.Errorf("%s leaves %v", name, left)
		}
	}
	if err := os.WriteFile(file, testArchive(t, "the library"), 0o600); err != nil {
		t.Fatal(err)
	}
	lib, err := in.ensure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		root: 0o755, filepath.Dir(lib): 0o755, lib: 0o644,
		filepath.Join(filepath.Dir(lib), recordName): 0o644,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, not %v (%v)", path, info.Mode().Perm(), want, err)
		}
	}
}

func TestWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Ensure(t.Context(), Options{CacheDir: t.TempDir()})
	wantRefused(t, err, ErrNoNPM, "install Node.js with npm, install it from a file (lumenhook install-clickhouse")
}

func TestWithoutNetwork(t *testing.T) {
	useRegistry(t, "http://127.0.0.1:1")
	in := testInstaller(t, t.TempDir(), integrity(nil), "the library")
	_, err := in.ensure(t.Context())
	wantRefused(t, err, ErrNoNetwork, "--clickhouse-dsn")
}

func TestCancelledInstallationEndsNPM(t *testing.T) {
	asked, release := make(chan struct{}, 16), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	useRegistry(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	root := t.TempDir()
	_, err := testInstaller(t, root, integrity(nil), "the library").ensure(ctx)
	wantRefused(t, err, context.Canceled, "cut short")
	if left, _ := filepath.Glob(filepath.Join(root, ".install-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEveryKindOfNPMFailureNamesItsFix(t *testing.T) {
	in := testInstaller(t, "/cache", "", "")
	for code, want := range map[string]struct {
		kind error
		fix  string
	}{
		"npm error code ENOSPC":                {ErrDiskFull, CacheDirVariable},
		"npm error code EBADPLATFORM":          {ErrUnsupportedPlatform, "clickhouse binary"},
		"npm error code EAI_AGAIN":             {ErrNoNetwork, "--clickhouse-dsn"},
		"npm error code E404\nnpm error 404 x": {os.ErrInvalid, "E404"},
	} {
		wantRefused(t, in.npmError(os.ErrInvalid, code), want.kind, want.fix)
	}
}
