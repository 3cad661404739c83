package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// Limits and defaults.
const (
	fileSizeBytesMax     = 128 << 20
	plainSizeBytesMax    = 256 << 20 // of a decompressed file
	aheadSizeBytesMax    = 64 << 20  // of the prefetched files, estimated by the size of the last one
	manifestSizeBytesMax = 64 << 10
	aheadDefault         = 4
	aheadMax             = 64
	pageSizeMax          = 64 // ledgers returned at once
	requestTimeout       = 2 * time.Minute
)

// Config configures a Source.
type Config struct {
	Store        Store
	Passphrase   string        // of the lake's network
	Trust        source.Trust  // of the ledgers that it returns
	Logger       *slog.Logger  // nil: no logs
	PollInterval time.Duration // between polls for the next file; default: 1 s
	FilesAhead   int           // number of files to prefetch, at most 64; default: 4
}

// Source reads a lake's ledgers in order, prefetching files. It is not safe for concurrent use.
type Source struct {
	config Config
	poll   *source.Poll
	layout Layout
	opened bool // the manifest has been read
	ahead  map[uint32]chan fetched
	newest uint32       // newest ledger at the last listing
	former bool         // the newest file has formerSuffix
	kept   []ledger.Raw // ledgers of the last file that have not been returned
}

type fetched struct {
	ledgers []ledger.Raw
	err     error // for the part of the file after these ledgers
}

// has reports whether the file contains a ledger, or was read completely without it.
func (f fetched) has(sequence uint32) bool {
	return f.err == nil || len(f.ledgers) > 0 && f.ledgers[len(f.ledgers)-1].Sequence >= sequence
}

func (f fetched) sizeBytes() (sum int) {
	for _, l := range f.ledgers {
		sum += len(l.XDR)
	}
	return sum
}

// New returns a source. It doesn't access the lake yet.
func New(config Config) (*Source, error) {
	if config.Store == nil {
		return nil, errors.New("lake: Store is not set")
	}
	if config.FilesAhead < 0 || config.FilesAhead > aheadMax {
		return nil, fmt.Errorf("lake: FilesAhead is %d: must be 1 to %d", config.FilesAhead, aheadMax)
	}
	if config.FilesAhead == 0 {
		config.FilesAhead = aheadDefault
	}
	poll, err := source.NewPoll(source.Poll{
		Kind:       "lake",
		Name:       "the lake",
		Server:     config.Store.String(),
		Passphrase: config.Passphrase,
		Trust:      config.Trust,
		Interval:   config.PollInterval,
		Log:        config.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Source{config: config, poll: poll, ahead: map[uint32]chan fetched{}}, nil
}

// Check checks that the lake belongs to the configured network.
func (s *Source) Check(ctx context.Context) error { return s.open(ctx) }

func (s *Source) open(ctx context.Context) error {
	if s.opened {
		return nil
	}
	raw, err := s.config.Store.Get(ctx, manifestName, manifestSizeBytesMax)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("lake %s: %w", s.config.Store, errNoManifest)
	case err != nil:
		return fmt.Errorf("lake %s: reading its manifest: %w", s.config.Store, err)
	}
	m, err := parseManifest(raw)
	if err != nil {
		return fmt.Errorf("lake %s: %w", s.config.Store, err)
	}
	if m.NetworkPassphrase != "" && m.NetworkPassphrase != s.config.Passphrase {
		return fmt.Errorf("%w: the lake %s is for %q, not for %q", domain.ErrWrongNetwork,
			s.config.Store, m.NetworkPassphrase, s.config.Passphrase)
	}
	s.layout, s.opened = m.layout(), true
	return nil
}

// Latest returns the sequence of the newest ledger.
func (s *Source) Latest(ctx context.Context) (uint32, error) {
	if err := s.open(ctx); err != nil {
		return 0, err
	}
	keys, err := s.config.Store.First(ctx, 16)
	if err != nil {
		return 0, fmt.Errorf("lake %s: looking for its newest file: %w", s.config.Store, err)
	}
	for _, key := range keys {
		if last, ok := parseKey(key); ok {
			s.newest, s.former = last, strings.HasSuffix(key, formerSuffix)
			return last, nil
		}
	}
	if len(keys) > 0 {
		return 0, fmt.Errorf("the lake %s contains no ledger file (named as in SEP-54, such as "+
			"FFFFFD5D--674.xdr.zst); its first file is %q", s.config.Store, keys[0])
	}
	return 0, fmt.Errorf("the lake %s has no ledger yet", s.config.Store)
}

// Report returns the newest ledger. Everything else would require reading files.
func (s *Source) Report(ctx context.Context) (source.Report, error) {
	latest, err := s.Latest(ctx)
	return source.Report{Latest: latest}, err
}

// Continue sets the last ledger read, which the next one must follow.
func (s *Source) Continue(sequence uint32, hash string) { s.poll.Continue(sequence, hash) }

// Next waits for a ledger, and returns it and those after it in the same file, at most 64.
func (s *Source) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	return s.poll.Next(ctx, sequence, func() ([]ledger.Raw, error) { return s.Look(ctx, sequence) })
}

// Look implements source.Looker. A damaged file is reported as a refused ledger: the file may be
// repaired, or another source may have the ledger.
func (s *Source) Look(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	page, err := s.try(ctx, sequence)
	if damage, is := errors.AsType[*damage](err); is {
		s.poll.Refuse(damage, sequence)
	}
	return page, err
}

// damage is an error about a file that may be intact at the next attempt.
type damage struct{ error }

// Unwrap returns ledger.ErrNotProved.
func (d *damage) Unwrap() error { return ledger.ErrNotProved }

func (s *Source) try(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	if s.newest == 0 { // needed to prefetch existing files
		if _, err := s.Latest(ctx); err != nil {
			return nil, err
		}
	}
	if len(s.kept) == 0 || s.kept[0].Sequence != sequence {
		ledgers, err := s.file(ctx, sequence)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, s.missing(ctx, sequence)
		}
		if err != nil {
			return nil, err
		}
		for len(ledgers) > 0 && ledgers[0].Sequence < sequence {
			ledgers = ledgers[1:]
		}
		s.kept = ledgers
	}
	if len(s.kept) == 0 || s.kept[0].Sequence > sequence {
		s.kept = nil
		return nil, s.missing(ctx, sequence)
	}
	page, err := s.poll.Fitting(s.kept[:min(len(s.kept), pageSizeMax)], sequence,
		"the lake "+s.config.Store.String())
	if err != nil {
		s.kept = nil
		return nil, err
	}
	s.kept = s.kept[len(page):]
	return page, nil
}

// missing returns an error if a missing ledger can't appear, because files are exported in order.
func (s *Source) missing(ctx context.Context, sequence uint32) error {
	latest, err := s.Latest(ctx)
	if err != nil || latest < sequence {
		return err
	}
	got := <-s.fetch(ctx, sequence)
	ledgers, err := got.ledgers, got.err
	if err == nil && len(ledgers) > 0 && ledgers[0].Sequence <= sequence {
		return nil // the file has appeared in the meantime
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: the lake %s has ledgers up to %d, but not ledger %d: export it to "+
		"the lake, or start later and miss the payments in between", domain.ErrBehindRetention,
		s.config.Store, latest, sequence)
}

// file returns the ledgers of the file that contains sequence, and prefetches the next files.
func (s *Source) file(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	first, last := s.layout.rangeOf(sequence)
	for have := range s.ahead {
		if have < first ||
			uint64(have) > uint64(first)+uint64(s.config.FilesAhead)*uint64(s.layout.LedgersPerFile) {
			delete(s.ahead, have) // its result is not read
		}
	}
	this, ok := s.ahead[first]
	if !ok {
		this = s.fetch(ctx, first)
	}
	delete(s.ahead, first)
	var got fetched
	select {
	case got = <-this:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if errors.Is(got.err, context.Canceled) && ctx.Err() == nil { // it was started by an earlier call
		got = <-s.fetch(ctx, first)
	}
	if got.has(sequence) {
		for i := range min(s.config.FilesAhead, aheadSizeBytesMax/(got.sizeBytes()+1)) {
			next := uint64(last) + 1 + uint64(i)*uint64(s.layout.LedgersPerFile)
			if _, ok := s.ahead[uint32(next)]; !ok && next <= uint64(s.newest) {
				s.ahead[uint32(next)] = s.fetch(ctx, uint32(next))
			}
		}
		return got.ledgers, nil
	}
	clear(s.ahead) // prefetched files that were missing may exist by now
	return nil, got.err
}

// decompressor limits the decompressed size. A larger file is considered damaged.
var decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0),
	zstd.WithDecoderMaxMemory(plainSizeBytesMax))

// fetch starts to fetch a file by both of its possible names, starting with the form of the newest
// file. The result is sent to a buffered channel.
func (s *Source) fetch(ctx context.Context, first uint32) chan fetched {
	result := make(chan fetched, 1)
	key := s.layout.Key(first)
	keys := []string{key, key + formerSuffix}
	if s.former {
		slices.Reverse(keys)
	}
	if first > s.newest {
		keys = keys[:1]
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		var got fetched
		for _, key := range keys {
			if got.ledgers, got.err = s.read(ctx, key); !errors.Is(got.err, fs.ErrNotExist) {
				break
			}
		}
		result <- got
	}()
	return result
}

func (s *Source) read(ctx context.Context, key string) ([]ledger.Raw, error) {
	raw, err := s.config.Store.Get(ctx, key, fileSizeBytesMax)
	if err != nil {
		return nil, err
	}
	if raw, err = decompressor.DecodeAll(raw, nil); err != nil {
		return nil, &damage{fmt.Errorf("lake %s: file %s: %w", s.config.Store, key, err)}
	}
	parts, split := ledger.SplitBatch(raw)
	var ledgers []ledger.Raw
	for _, part := range parts {
		header, err := ledger.ReadHeader(part)
		if err != nil {
			return ledgers, s.unreadable(key, part, err)
		}
		ledgers = append(ledgers, ledger.Raw{Sequence: header.Sequence, Hash: header.Hash, XDR: part})
	}
	if split != nil && len(ledgers) > 0 { // the last part is everything that is left
		last := len(ledgers) - 1
		return ledgers[:last], s.unreadable(key, ledgers[last].XDR, split)
	}
	return ledgers, nil
}

// unreadable returns a damage error, or domain.ErrUnreadable if the part has a newer form.
func (s *Source) unreadable(key string, part []byte, err error) error {
	err = fmt.Errorf("lake %s: file %s: %w", s.config.Store, key, err)
	_, why := ledger.Verify(ledger.Raw{XDR: part}, s.config.Passphrase)
	if why == nil || errors.Is(why, ledger.ErrNotProved) {
		return &damage{err}
	}
	return fmt.Errorf("%w: %w: upgrade lumenhook: %w", domain.ErrUnreadable, err, why)
}
