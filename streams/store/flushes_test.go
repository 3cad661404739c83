package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// ends is a logger that records the message that would have ended the process.
type ends chan string

func (ends) Infof(string, ...any)  {}
func (ends) Errorf(string, ...any) {}

func (e ends) Fatalf(format string, args ...any) {
	select {
	case e <- fmt.Sprintf(format, args...):
	default: // Pebble keeps retrying
	}
}

// If the disk accepts no writes, a writer to a store without a log must not wait forever, so the
// process ends. Successful flushes, with or without data, must not end it.
func TestADiskThatTakesNothingEndsTheProcess(t *testing.T) {
	full := new(errorfs.Toggle)
	full.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	})
	told := make(ends, 1)
	db, err := pebble.Open("state", &pebble.Options{
		FS:            errorfs.Wrap(vfs.NewMem(), full),
		DisableWAL:    true,
		Logger:        told,
		EventListener: (&flushes{log: told}).listener(),
	})
	check(t, err)
	check(t, db.Flush())
	check(t, db.Set([]byte("key"), nil, pebble.NoSync))
	check(t, db.Flush())
	select {
	case said := <-told:
		t.Fatalf("a disk that takes all ended the process: %s", said)
	default:
	}
	full.On()
	check(t, db.Set([]byte("key"), nil, pebble.NoSync))
	flushed, err := db.AsyncFlush()
	check(t, err)
	if said := <-told; !strings.Contains(said, errorfs.ErrInjected.Error()) {
		t.Errorf("it ended with %q", said)
	}
	full.Off()
	<-flushed
	check(t, db.Close())
}
