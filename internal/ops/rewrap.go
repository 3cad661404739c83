package ops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// reachTimeout bounds the wait for unreachable brokers.
	reachTimeout = 15 * time.Second
	// followTime is longer than processes take to notice a changed master key file.
	followTime = 2 * time.Second
)

// RewrapConfig configures the walk over sealed values. All fields are required.
type RewrapConfig struct {
	Key     keys.MasterKeyPlace
	Signing string                        // the file of the signing keys, which need not exist
	Cluster func() (kafka.Cluster, error) // called once the master key is read
	// Progress is called with records and endpoints, done and in total.
	Progress func(done, total int64)
	Logger   *slog.Logger // gets values that cannot be opened
}

// Rewrap rotates the master key, unless a rewrap is resumed, and has everything that is sealed
// resealed with it. It may be interrupted and resumed at any point.
func Rewrap(ctx context.Context, cfg RewrapConfig, resume bool) (RewrapReport, error) {
	if !resume {
		if err := cfg.rotate(ctx); err != nil {
			return RewrapReport{}, err
		}
	}
	if err := cfg.awaitFollowed(ctx); err != nil {
		return RewrapReport{}, rewrapInterrupted(err)
	}
	w, err := cfg.open(ctx, true)
	if err != nil {
		return RewrapReport{}, err
	}
	found, err := w.run(ctx)
	w.close()
	if err != nil {
		return RewrapReport{}, rewrapInterrupted(err)
	}
	signingKeys, err := keys.ResealSigning(cfg.Signing, w.sealer)
	if err != nil {
		return RewrapReport{}, rewrapInterrupted(err)
	}
	list, err := cfg.Key.Keys()
	if err != nil {
		return RewrapReport{}, err
	}
	report := rewrapReportOf(found, w.sealer.Newest(), list)
	report.SigningKeysResealed = signingKeys
	return report, nil
}

func rewrapInterrupted(err error) error {
	return fmt.Errorf("not all is resealed; nothing is lost, "+
		"and `lumenhook secrets rewrap --resume` goes on: %w", err)
}

// rotate rotates the key once the service is known to run.
func (cfg RewrapConfig) rotate(ctx context.Context) error {
	w, err := cfg.open(ctx, true)
	if err != nil {
		return fmt.Errorf("the key was not rotated, for nothing could be resealed: %w "+
			"(--key-only rotates it all the same)", err)
	}
	defer w.close()
	_, _, err = w.extent(ctx, schemas.TopicEndpoints)
	if err == nil {
		_, err = keys.RotateMasterFile(cfg.Key.Path(), false)
	}
	return err
}

// awaitFollowed waits until processes that follow the master key's file have noticed
// its last change, so that none seals with an older key any more.
func (cfg RewrapConfig) awaitFollowed(ctx context.Context) error {
	info, err := os.Stat(cfg.Key.Path())
	if _, isVariable := cfg.Key.FromVariable(); isVariable || err != nil {
		return nil
	}
	return retry.Sleep(ctx, followTime-time.Since(info.ModTime()))
}

// open makes a walker. The caller closes it.
func (cfg RewrapConfig) open(ctx context.Context, resealing bool) (*walker, error) {
	text, err := cfg.Key.Text()
	if err != nil {
		return nil, err
	}
	w := &walker{progress: cfg.Progress, logger: cfg.Logger}
	if w.sealer, err = keys.ParseSealer(text); err != nil {
		return nil, err
	}
	if w.cluster, err = cfg.Cluster(); err != nil || !resealing {
		return w, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	w.engine, err = config.OpenEngine(ctx, w.cluster)
	return w, err
}

// DropKey removes a key from the master key, once nothing is found that it sealed; else it
// changes nothing. For a master key in a variable it returns the new text.
func DropKey(
	ctx context.Context, cfg RewrapConfig, id uint32,
) (left []byte, kept []keys.MasterKey, err error) {
	text, err := cfg.Key.Text()
	if err != nil {
		return nil, nil, err
	}
	// What can be refused without reading topics is refused first.
	if left, kept, err = keys.DropMaster(text, id); err != nil {
		return nil, nil, err
	}
	inUse, err := cfg.inUse(ctx, id)
	if err == nil && inUse == 0 {
		inUse, err = signingInUse(cfg.Signing, id)
	}
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the key was not dropped, "+
			"for it is not known whether it is in use: %w", err)
	case inUse > 0:
		return nil, nil, fmt.Errorf("key %s is in use and was not dropped: "+
			"%d values of endpoints, or signing keys, open with it alone; "+
			"run `lumenhook secrets rewrap --resume` first", KeyName(id), inUse)
	}
	if _, isVariable := cfg.Key.FromVariable(); isVariable {
		return left, kept, nil
	}
	kept, err = keys.DropMasterFile(cfg.Key.Path(), id)
	return nil, kept, err
}

// signingInUse counts the signing keys that a key sealed.
func signingInUse(path string, id uint32) (n int, err error) {
	signing, err := keys.ReadSigning(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, k := range signing {
		if by, _ := keys.SealedBy(k.Sealed); by == id {
			n++
		}
	}
	return n, err
}

// inUse counts the values that a key sealed, once nothing more is sealed with it.
func (cfg RewrapConfig) inUse(ctx context.Context, id uint32) (int, error) {
	w, err := cfg.open(ctx, false)
	if err != nil {
		return 0, err
	}
	if err := cfg.awaitFollowed(ctx); err != nil {
		return 0, err
	}
	return w.inUse(ctx, id)
}
