package clickhousetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

// shared is the engine of this process. The first test that needs a database starts it.
var shared struct {
	once   sync.Once
	dir    string
	engine *clickhouse.Engine
	err    error
	tests  atomic.Int64
}

// Runner runs the tests of a package.
type Runner interface{ Run() int }

// Sharing returns a Runner for a package that uses [Database]. It stops the engine after the tests.
func Sharing(m Runner) Runner { return sharing{m} }

type sharing struct{ tests Runner }

func (s sharing) Run() int {
	code := s.tests.Run()
	if shared.engine != nil {
		if err := shared.engine.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the ClickHouse engine:", err)
		}
	}
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	return code
}

// Database returns the DSN of an empty database for the test. The test may also use databases whose
// names start with that name and "_". All are dropped when the test ends.
//
// The engine is shared: a test that stops or kills it, changes global settings, or counts its
// activity, needs its own ([Start]).
func Database(t testing.TB) string {
	t.Helper()
	program := Program(t)
	shared.once.Do(func() { shared.err = share(program) })
	if shared.err != nil {
		t.Fatalf("starting the ClickHouse engine: %v", shared.err)
	}
	name := fmt.Sprintf("test%d", shared.tests.Add(1))
	ask(t, "CREATE DATABASE "+name+" ENGINE = Atomic")
	t.Cleanup(func() {
		names := ask(t, "SELECT name FROM system.databases WHERE name = '"+name+
			"' OR startsWith(name, '"+name+"_') FORMAT TSVRaw")
		for name := range strings.FieldsSeq(names) {
			ask(t, "DROP DATABASE "+name+" SYNC")
		}
	})
	return strings.TrimSuffix(shared.engine.DSN(), shared.engine.Database()) + name
}

func share(program clickhouse.Program) (err error) {
	if shared.dir, err = os.MkdirTemp("", "lumenhook-clickhouse-"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	shared.engine, err = clickhouse.Start(ctx, clickhouse.Config{
		Program: program,
		DataDir: shared.dir,
		Grants:  Grants(),
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	return err
}

// ask runs a statement. It works after the test has ended as well.
func ask(t testing.TB, statement string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startMax)
	defer cancel()
	answer, err := post(ctx, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}

func post(ctx context.Context, statement string) (answer string, err error) {
	request, err := http.NewRequestWithContext(
		ctx, http.MethodPost, shared.engine.HTTPURL(), strings.NewReader(statement))
	if err != nil {
		return "", err
	}
	request.SetBasicAuth(shared.engine.Service().User, shared.engine.Service().Password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	said, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, fmt.Errorf("%s: %s", response.Status, said))
	}
	return string(said), err
}
