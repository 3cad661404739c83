package lake_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/lake"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

const passphrase = "Lumenhook test network"

// fill creates a lake with a chain of empty ledgers.
func fill(t testing.TB, layout lake.Layout, first, last uint32) (dir string) {
	t.Helper()
	dir = t.TempDir()
	add(t, dir, layout, first, last)
	return dir
}

func add(t testing.TB, dir string, layout lake.Layout, first, last uint32) {
	t.Helper()
	w, err := lake.NewWriter(dir, layout, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := first; sequence <= last; sequence++ {
		meta := xdr.LedgerCloseMeta{V: 2, V2: &xdr.LedgerCloseMetaV2{
			LedgerHeader: headerOf(t, sequence),
			TxSet:        noTransactions,
		}}
		raw, err := meta.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(sequence, raw); err != nil {
			t.Fatal(err)
		}
	}
}

var noTransactions = xdr.GeneralizedTransactionSet{V: 1, V1TxSet: &xdr.TransactionSetV1{}}

// headers are the headers of the empty ledgers, beginning at ledger 0.
var headers []xdr.LedgerHeaderHistoryEntry

func headerOf(t testing.TB, sequence uint32) xdr.LedgerHeaderHistoryEntry {
	t.Helper()
	for next := len(headers); next <= int(sequence); next++ {
		header := xdr.LedgerHeader{
			LedgerSeq:       xdr.Uint32(next),
			ScpValue:        xdr.StellarValue{TxSetHash: hashXDR(t, noTransactions)},
			TxSetResultHash: hashXDR(t, xdr.TransactionResultSet{}),
		}
		if next > 0 {
			header.PreviousLedgerHash = headers[next-1].Hash
		}
		headers = append(headers,
			xdr.LedgerHeaderHistoryEntry{Hash: hashXDR(t, header), Header: header})
	}
	return headers[sequence]
}

func hashXDR(t testing.TB, v any) xdr.Hash {
	t.Helper()
	hash, err := xdr.HashXdr(v)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func newSource(t *testing.T, store lake.Store) *lake.Source {
	t.Helper()
	s, err := lake.New(lake.Config{
		Store:        store,
		Passphrase:   passphrase,
		PollInterval: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func folder(t *testing.T, dir string) lake.Store {
	t.Helper()
	store, err := lake.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
	t.Cleanup(cancel)
	return ctx
}

func readAll(t *testing.T, s *lake.Source, first, last uint32) {
	t.Helper()
	for due := first; due <= last; {
		page, err := s.Next(within(t), due)
		if err != nil {
			t.Fatalf("ledger %d: %v", due, err)
		}
		for _, raw := range page {
			if raw.Sequence != due {
				t.Fatalf("ledger %d where %d is due", raw.Sequence, due)
			}
			due++
		}
	}
}

// The names must be those that Galexie gives its files (SEP-54).
func TestNames(t *testing.T) {
	for _, c := range []struct {
		layout lake.Layout
		ledger uint32
		want   string
	}{
		{
			lake.Layout{LedgersPerFile: 1, FilesPerPartition: 64000}, 63092988,
			"FC3E15FF--63040000-63103999/FC3D4703--63092988.xdr.zst",
		},
		{
			lake.Layout{LedgersPerFile: 64, FilesPerPartition: 10}, 1000,
			"FFFFFD7F--640-1279/FFFFFC3F--960-1023.xdr.zst",
		},
		{lake.Layout{LedgersPerFile: 1, FilesPerPartition: 1}, 5, "FFFFFFFA--5.xdr.zst"},
	} {
		if got := c.layout.Key(c.ledger); got != c.want {
			t.Errorf("ledger %d of %+v is in %s, want %s", c.ledger, c.layout, got, c.want)
		}
	}
}

func TestFolders(t *testing.T) {
	for _, layout := range []lake.Layout{
		{LedgersPerFile: 1, FilesPerPartition: 1},
		{LedgersPerFile: 1, FilesPerPartition: 10},
		{LedgersPerFile: 8, FilesPerPartition: 4},
		{LedgersPerFile: 100, FilesPerPartition: 1},
	} {
		dir := fill(t, layout, 2, 399)
		s := newSource(t, folder(t, dir))
		if err := s.Check(within(t)); err != nil {
			t.Fatal(err)
		}
		if latest, err := s.Latest(within(t)); err != nil || latest != 399 {
			t.Errorf("%+v: the latest is %d (%v), want 399", layout, latest, err)
		}
		readAll(t, s, 2, 399)
		readAll(t, newSource(t, folder(t, dir)), 213, 399)
	}
}

func TestTheNextFileIsWaitedFor(t *testing.T) {
	layout := lake.Layout{LedgersPerFile: 4, FilesPerPartition: 2}
	dir := fill(t, layout, 4, 7)
	s := newSource(t, folder(t, dir))
	readAll(t, s, 4, 7)
	type answer struct {
		page []ledger.Raw
		err  error
	}
	got, ctx := make(chan answer, 1), within(t)
	go func() {
		page, err := s.Next(ctx, 8)
		got <- answer{page, err}
	}()
	add(t, dir, layout, 8, 15)
	if a := <-got; a.err != nil || a.page[0].Sequence != 8 {
		t.Errorf("got %+v", a)
	}
}

func TestWhatALakeDoesNotHave(t *testing.T) {
	layout := lake.Layout{LedgersPerFile: 4, FilesPerPartition: 1}
	dir := fill(t, layout, 102, 119)
	for _, missing := range []uint32{2, 99, 101} {
		if _, err := newSource(t, folder(t, dir)).Next(within(t), missing); !errors.Is(err,
			domain.ErrBehindRetention) {
			t.Errorf("ledger %d: got %v", missing, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, layout.Key(108))); err != nil {
		t.Fatal(err)
	}
	s := newSource(t, folder(t, dir))
	readAll(t, s, 102, 107)
	if _, err := s.Next(within(t), 108); !errors.Is(err, domain.ErrBehindRetention) {
		t.Errorf("a hole: got %v", err)
	}
	s.Continue(111, strings.Repeat("ab", 32))
	if _, err := s.Next(within(t), 112); !errors.Is(err, domain.ErrForked) {
		t.Errorf("another chain: got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, layout.Key(112)), []byte("no zstd"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := newSource(t, folder(t, dir)).Next(ctx,
		112); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a damaged file is waited for: got %v", err)
	}
}

func TestOtherNetworksAndManifests(t *testing.T) {
	dir := fill(t, lake.Layout{LedgersPerFile: 4, FilesPerPartition: 1}, 4, 7)
	s, err := lake.New(lake.Config{Store: folder(t, dir), Passphrase: "another network"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(within(t)); !errors.Is(err, domain.ErrWrongNetwork) {
		t.Errorf("got %v", err)
	}
	manifest := filepath.Join(dir, ".config.json")
	for _, text := range []string{
		"{", `{"compression":"lz4","ledgersPerBatch":4}`, `{"ledgersPerBatch":0}`,
	} {
		if err := os.WriteFile(manifest, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := newSource(t, folder(t, dir)).Check(within(t)); err == nil {
			t.Errorf("the manifest %s passed", text)
		}
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	if err := newSource(t, folder(t, dir)).Check(within(t)); err == nil {
		t.Error("a lake without a manifest passed")
	}
	for _, address := range []string{
		"/does/not/exist", "s3://", "ftp://x/y", "s3://b/p?colour=red",
		"s3://b?endpoint=x",
	} {
		if _, err := lake.Open(address); err == nil {
			t.Errorf("%s passed", address)
		}
	}
}

// bucket serves a folder over the S3 protocol, which the XML interface of Google Cloud Storage
// uses as well.
type bucket struct {
	t    *testing.T
	dir  string
	name string

	mu     sync.Mutex
	signed int
	failed bool // whether a request was already told to retry
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	if strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=key/") {
		b.signed++
	}
	stumble := !b.failed
	b.failed = true
	b.mu.Unlock()
	if stumble {
		http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
		return
	}
	key, ok := strings.CutPrefix(r.URL.Path, "/"+b.name+"/")
	switch {
	case !ok:
		http.Error(w, "no such bucket", http.StatusNotFound)
	case r.URL.Query().Get("list-type") == "2":
		b.list(w, r.URL.Query())
	default:
		raw, err := os.ReadFile(filepath.Join(b.dir, strings.TrimPrefix(key, "ledgers/")))
		if errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(key, "ledgers/") {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, "<Error><Code>NoSuchKey</Code><Key>%s</Key></Error>", key)
			return
		}
		sum := md5.Sum(raw)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Length", fmt.Sprint(len(raw)))
		if _, err := w.Write(raw); err != nil {
			b.t.Log(err)
		}
	}
}

func (b *bucket) list(w http.ResponseWriter, q url.Values) {
	type content struct {
		Key, LastModified, ETag string
		Size                    int
	}
	var result struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Name        string
		KeyCount    int
		IsTruncated bool
		Contents    []content
	}
	result.Name = b.name
	var keys []string
	err := filepath.WalkDir(b.dir, func(path string, entry fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(b.dir, path); err == nil && !entry.IsDir() {
			keys = append(keys, "ledgers/"+rel)
		}
		return err
	})
	if err != nil {
		b.t.Error(err)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if strings.HasPrefix(key, q.Get("prefix")) && len(result.Contents) < 1000 {
			result.Contents = append(result.Contents,
				content{Key: key, LastModified: "2026-11-01T00:00:00.000Z", ETag: "e", Size: 1})
		}
	}
	result.KeyCount = len(result.Contents)
	if err := xml.NewEncoder(w).Encode(result); err != nil {
		b.t.Error(err)
	}
}

func TestBuckets(t *testing.T) {
	dir := fill(t, lake.Layout{LedgersPerFile: 4, FilesPerPartition: 4}, 2, 63)
	for scheme, query := range map[string]string{
		"s3":             "",
		"gs":             "",
		"s3 anonymously": "&anonymous=true",
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", "key")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			b := &bucket{t: t, dir: dir, name: "lake"}
			server := httptest.NewServer(b)
			t.Cleanup(server.Close)
			name, _, _ := strings.Cut(scheme, " ")
			store, err := lake.Open(
				name + "://lake/ledgers?region=us-east-2&endpoint=" + url.QueryEscape(server.URL) + query,
			)
			if err != nil {
				t.Fatal(err)
			}
			s := newSource(t, store)
			if err := s.Check(within(t)); err != nil {
				t.Fatal(err)
			}
			if latest, err := s.Latest(within(t)); err != nil || latest != 63 {
				t.Errorf("the latest is %d (%v), want 63", latest, err)
			}
			readAll(t, s, 2, 63)
			if _, err := store.Get(within(t), "nothing", 10); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file that is not there: %v", err)
			}
			if _, err := store.Get(within(t), ".config.json", 3); err == nil {
				t.Error("a file larger than its bound passed")
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if (b.signed > 0) != (query == "") {
				t.Errorf("%d requests were signed", b.signed)
			}
		})
	}
}

// After damage in a file, the ledgers before it must be returned, and the rest rejected, counted,
// requested again, and read once the file is fixed.
func TestDamageIsRefusedAndAskedForAgain(t *testing.T) {
	layout := lake.Layout{LedgersPerFile: 8, FilesPerPartition: 1}
	const body = 330 // bytes from the beginning of a ledger to a place in its header
	for name, damage := range map[string]func(plain []byte) []byte{
		"cut":         func(plain []byte) []byte { return plain[:len(plain)*5/8] },
		"count":       func(plain []byte) []byte { plain[11]++; return plain },
		"head":        func(plain []byte) []byte { plain[0] = 0x70; return plain },
		"value":       func(plain []byte) []byte { plain[len(plain)*5/8+128] ^= 1; return plain },
		"no ledger":   func([]byte) []byte { return []byte("no ledger") },
		"a hash":      func(plain []byte) []byte { plain[len(plain)-body] ^= 1; return plain },
		"nothing":     func([]byte) []byte { return nil },
		"half a head": func(plain []byte) []byte { return plain[:7] },
	} {
		t.Run(name, func(t *testing.T) {
			dir := fill(t, layout, 64, 79)
			file := filepath.Join(dir, layout.Key(72))
			right, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := decompressed(right)
			if err != nil {
				t.Fatal(err)
			}
			var packed bytes.Buffer
			z, err := zstd.NewWriter(&packed)
			if err == nil {
				_, err = z.Write(damage(plain))
			}
			if err := errors.Join(err, z.Close()); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			var refused atomic.Int32
			s, err := lake.New(lake.Config{
				Store:        folder(t, dir),
				Passphrase:   passphrase,
				PollInterval: time.Millisecond,
				Trust:        source.Trust{OnRefused: func() { refused.Add(1) }},
			})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, s, 64, 71)
			got, ctx := make(chan error, 1), within(t)
			go func() {
				for due := uint32(72); due <= 79; {
					page, err := s.Next(ctx, due)
					if err != nil {
						got <- err
						return
					}
					due += uint32(len(page))
				}
				got <- nil
			}()
			testkit.Eventually(t, "it is refused more than once", func() bool {
				return refused.Load() > 1 || len(got) > 0
			})
			if refused.Load() == 0 {
				t.Errorf("it was not refused: %v", <-got)
				return
			}
			if err := os.WriteFile(file, right, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

// A ledger that is valid in itself must be rejected if it is not the trusted one.
func TestALakeOfAnotherHistory(t *testing.T) {
	layout := lake.Layout{LedgersPerFile: 1, FilesPerPartition: 1}
	dir := fill(t, layout, 64, 70)
	headerOf(t, 70)
	last := headers[70].Header
	last.ScpValue.CloseTime++ // valid in itself, but from another history
	anchor := source.Anchor{Sequence: 70, Hash: hashXDR(t, last).HexString()}
	refused := make(chan struct{}, 1000)
	s, err := lake.New(lake.Config{
		Store:        folder(t, dir),
		Passphrase:   passphrase,
		PollInterval: time.Millisecond,
		Trust:        source.Trust{Anchor: anchor, OnRefused: func() { refused <- struct{}{} }},
	})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, s, 64, 69)
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := s.Next(ctx, 70)
		ended <- err
	}()
	<-refused
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a ledger that is not the trusted one: got %v", err)
	}
}

// An earlier Galexie named the files .zstd. A lake that was upgraded has both names.
func TestFormerNames(t *testing.T) {
	layout := lake.Layout{LedgersPerFile: 4, FilesPerPartition: 2}
	for name, former := range map[string]func(n int) bool{
		"all":       func(int) bool { return true },
		"the old":   func(n int) bool { return n >= 3 }, // names are sorted from the newest to the oldest
		"the newer": func(n int) bool { return n < 3 },
	} {
		dir := fill(t, layout, 8, 31)
		files, err := filepath.Glob(filepath.Join(dir, "*", "*.zst"))
		if err != nil || len(files) != 6 {
			t.Fatalf("the lake has %v: %v", files, err)
		}
		for n, file := range files {
			if former(n) {
				if err := os.Rename(file, file+"d"); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := newSource(t, folder(t, dir))
		if latest, err := s.Latest(within(t)); err != nil || latest != 31 {
			t.Errorf("%s: the newest ledger is %d: %v", name, latest, err)
		}
		readAll(t, s, 8, 31)
	}
}

// Files with impossible names must not count for the newest ledger. A lake with only such files
// is reported.
func TestNamesThatCannotBeRight(t *testing.T) {
	layout := lake.Layout{LedgersPerFile: 1, FilesPerPartition: 1}
	dir := fill(t, layout, 1, 3)
	for _, name := range []string{
		"00000000--4294967295.xdr.zst", "00000000--7.xdr.zst", "0000000A--4294967285.xdr.zst",
		"7FFFFFFF--2147483648.xdr.zst", "00000000-readme.txt",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if latest, err := newSource(t, folder(t, dir)).Latest(within(t)); err != nil || latest != 3 {
		t.Errorf("the newest ledger is %d: %v", latest, err)
	}
	for _, sequence := range []uint32{1, 2, 3} {
		if err := os.Remove(filepath.Join(dir, layout.Key(sequence))); err != nil {
			t.Fatal(err)
		}
	}
	_, err := newSource(t, folder(t, dir)).Latest(within(t))
	if err == nil || !strings.Contains(err.Error(), "contains no ledger file") ||
		!strings.Contains(err.Error(), "00000000--4294967295.xdr.zst") {
		t.Errorf("got %v", err)
	}
}

// A file that decompresses to more than the limit is damaged, and must not take more memory.
func TestAFileThatGrowsIsDamage(t *testing.T) {
	dir := fill(t, lake.Layout{LedgersPerFile: 1, FilesPerPartition: 1}, 1, 3)
	var file bytes.Buffer
	w, err := zstd.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 300 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, lake.Layout{LedgersPerFile: 1}.Key(2))
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSource(t, folder(t, dir))
	if page, err := s.Look(within(t), 2); !errors.Is(err, ledger.ErrNotProved) ||
		source.IsPermanent(err) || !strings.Contains(err.Error(), zstd.ErrDecoderSizeExceeded.Error()) {
		t.Errorf("got %d ledgers, %v", len(page), err)
	}
}

// A file that is missing, unreadable or damaged must lead to an error of its kind. Nothing of it
// may be cached, so that its ledgers are returned once the file is right.
func TestAFileThatIsPutRight(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, file string) error
		is    error // nil: any temporary error
	}{
		"missing":  {func(*testing.T, string) error { return nil }, domain.ErrBehindRetention},
		"a folder": {func(_ *testing.T, file string) error { return os.Mkdir(file, 0o700) }, nil},
		"damaged": {func(_ *testing.T, file string) error {
			return os.WriteFile(file, []byte("no ledgers"), 0o600)
		}, ledger.ErrNotProved},
	} {
		layout := lake.Layout{LedgersPerFile: 2, FilesPerPartition: 1}
		dir := fill(t, layout, 2, 9)
		s := newSource(t, folder(t, dir))
		readAll(t, s, 2, 3)
		file := filepath.Join(dir, layout.Key(4))
		if err := errors.Join(os.Rename(file, file+".away"), c.spoil(t, file)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s = newSource(t, folder(t, dir)) // prefetched files are right
			if page, err := s.Look(within(t), 4); err == nil || c.is != nil && !errors.Is(err, c.is) ||
				c.is == nil && source.IsPermanent(err) {
				t.Errorf("%s: got %d ledgers, %v", name, len(page), err)
			}
		}
		if err := errors.Join(os.RemoveAll(file), os.Rename(file+".away", file)); err != nil {
			t.Fatal(err)
		}
		readAll(t, s, 4, 9)
	}
}

func decompressed(packed []byte) ([]byte, error) {
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	return decoder.DecodeAll(packed, nil)
}
