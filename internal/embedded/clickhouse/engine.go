package clickhouse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const (
	portTries      = 4 // chosen ports may be taken before the server binds them
	readyPoll      = 20 * time.Millisecond
	pingMax        = 2 * time.Second
	statementMax   = 10 * time.Second
	provenAfter    = time.Minute // a child that has lived this long resets the backoff
	answerMaxBytes = 4 << 10
)

// Engine is a running, supervised ClickHouse server. It is safe for concurrent use. Its addresses
// don't change until Stop.
type Engine struct {
	cfg    Config
	folder folder
	listen listen // where clients connect
	inner  listen // where the server listens, behind the gateway
	ports  []*gatewayPort
	token  string // our child's result of getMacro('lumenhook')
	lock   *os.File
	http   *http.Client
	kills  *killer
	killer *http.Client // of kills

	quit     context.CancelFunc
	done     chan struct{} // closed when the supervisor has ended
	stopErr  error         // set before done is closed
	restarts atomic.Int64

	mu      sync.Mutex
	up      bool
	pid     int
	lastErr error
	changed chan struct{} // closed and replaced when up changes
}

// Start locks the data folder, ends an orphaned child, starts the server, and waits until it
// accepts connections and has the database. ctx only limits the start; the engine runs until Stop.
// Errors that callers may want to handle are *PortTakenError and ErrDataDirInUse.
func Start(ctx context.Context, cfg Config) (*Engine, error) {
	if os.Getenv(childVariable) != "" {
		return nil, errors.New("this process was started as a ClickHouse engine but does not act as " +
			"one: main and TestMain must call clickhouse.MaybeChild first")
	}
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("starting the ClickHouse engine: %w", err)
	}
	e := &Engine{
		cfg:     cfg,
		folder:  folder(cfg.DataDir),
		token:   rand.Text(),
		http:    serverClient(2),
		killer:  serverClient(1),
		done:    make(chan struct{}),
		changed: make(chan struct{}),
	}
	e.kills = &killer{kill: e.killQueries}
	if err := e.lockFolder(); err != nil {
		return nil, err
	}
	c, err := e.first(ctx)
	if err != nil {
		e.closePorts()
		_ = e.lock.Close()
		return nil, err
	}
	running, quit := context.WithCancel(context.Background())
	e.quit = quit
	e.setUp(c)
	go e.supervise(running, c)
	if confinementVersion() == 0 {
		cfg.Logger.Warn("the ClickHouse engine is not confined, as this system has no Landlock: " +
			"whoever has a password of it can read the files of whoever runs it")
	}
	return e, nil
}

// serverClient returns a client of the server that uses at most so many connections. It has no
// proxy, because the server is on loopback, and no keep-alive, which would delay the child's exit.
func serverClient(most int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: most, DisableKeepAlives: true}}
}

func (e *Engine) lockFolder() error {
	if err := os.MkdirAll(e.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("making the ClickHouse data folder: %w", err)
	}
	lock, err := subprocess.TryLock(e.folder.lock())
	switch {
	case errors.Is(err, subprocess.ErrLocked):
		return fmt.Errorf("%w: %s; stop that process or choose another folder", ErrDataDirInUse,
			e.cfg.DataDir)
	case err != nil:
		return fmt.Errorf("locking the ClickHouse data folder: %w", err)
	}
	e.lock = lock
	return nil
}

// first opens the ports and starts the first child. If another program has taken one of the child's
// ports, it chooses new ones.
func (e *Engine) first(ctx context.Context) (*child, error) {
	if err := endStaleChild(e.folder, e.cfg.Logger); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		if err := e.openPorts(); err != nil {
			return nil, err
		}
		if err := writeServerConfig(e.folder, e.inner, e.token, e.cfg); err != nil {
			return nil, err
		}
		c, err := e.launch(ctx)
		if err == nil {
			return c, nil
		}
		if try == portTries || !strings.Contains(err.Error(), "Address already in use") {
			return nil, err
		}
		e.closePorts()
	}
}

func (e *Engine) openPorts() error {
	native, http, err := bindAll(e.cfg.NativeAddr, e.cfg.HTTPAddr)
	if err != nil {
		return err
	}
	e.listen = listenOf(native, http)
	if e.inner, err = freeListen(innerHost(e.listen.host)); err != nil {
		native.Close()
		http.Close()
		return err
	}
	e.ports = []*gatewayPort{
		serveGateway(native, e.inner.nativeAddr(), nativeHandshake(e.cfg.allows, e.HTTPURL()),
			nil),
		serveGateway(http, e.inner.httpAddr(), httpHandshake(e.cfg.allows), e.kills.left),
	}
	return nil
}

func (e *Engine) closePorts() {
	for _, p := range e.ports {
		p.close()
	}
}

// launch starts a child and waits until it accepts connections. If it fails, no child is left.
func (e *Engine) launch(ctx context.Context) (*child, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.StartMax,
		fmt.Errorf("it did not serve within %s", e.cfg.StartMax))
	defer cancel()
	c, err := spawn(e.cfg.Program, e.folder, e.inner, e.cfg.Database)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-c.exited:
			c.input.Close()
			err := c.lastWords(e.folder)
			if e.setAside(err, lastLines(c.said.String(), 2)) {
				return e.launch(ctx)
			}
			return nil, err
		case <-ctx.Done():
			c.kill()
			return nil, fmt.Errorf("starting the ClickHouse engine: %w (%v); see %s", context.Cause(ctx),
				last, e.folder.log())
		case <-tick.C:
			if last = e.prepare(ctx); last == nil {
				c.lower(e.cfg.Niceness)
				return c, nil
			}
			if errors.Is(last, ErrOpen) {
				c.kill()
				return nil, last
			}
		}
	}
}

// definition matches the file of a table or database that ClickHouse cannot load.
var definition = regexp.MustCompile(`\b(?:store/\w+/[\w-]+|metadata)/\w+\.sql\b`)

// setAside moves a file that prevents the engine from starting out of the data folder. The
// projector then recreates the missing table from the topics.
func (e *Engine) setAside(err error, said string) bool {
	file := definition.FindString(err.Error() + said)
	aside := filepath.Join(e.cfg.DataDir, "broken-"+filepath.Base(file))
	if file == "" || os.Rename(filepath.Join(e.folder.data(), file), aside) != nil {
		return false
	}
	e.cfg.Logger.Error("the ClickHouse engine cannot load a table; starting without it", "err", err,
		"definition", aside)
	return true
}

// prepare checks that our child responds, and that it rejects unauthorized users. An engine that
// ignores part of its configuration is stopped.
func (e *Engine) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	const askToken = "SELECT getMacro('lumenhook') FORMAT TSVRaw"
	for _, nobody := range []Login{{}, {User: localUser}} {
		token, err := e.request(ctx, http.MethodGet, "/?query="+url.QueryEscape(askToken), nobody, "")
		if err == nil && token == e.token {
			return fmt.Errorf("%w: it asks for no password; %s", ErrOpen, otherWays)
		} else if err != nil && !errors.As(err, new(*refusal)) {
			return err // for example, the connection broke before the rejection arrived
		}
	}
	token, err := e.statement(ctx, e.cfg.Service, askToken)
	if err != nil {
		return err
	}
	if token != e.token {
		return fmt.Errorf("another ClickHouse answers on %s", e.inner.httpAddr())
	}
	for _, probe := range []struct {
		who Login
		sql string
	}{
		{e.cfg.Service, "SELECT count() FROM file('/dev/null', 'TSV', 'x String')"},
		{e.cfg.Reader, "SELECT count() FROM file('/dev/null', 'TSV', 'x String')"},
		{e.cfg.Reader, "SELECT count() FROM system.users"},
		{e.cfg.Reader, "SELECT 1 SETTINGS readonly = 0"},
	} {
		if _, err := e.statement(ctx, probe.who, probe.sql); err == nil {
			return fmt.Errorf("%w: the user %s may do %q; %s", ErrOpen, probe.who.User, probe.sql, otherWays)
		} else if !errors.As(err, new(*refusal)) {
			return err
		}
	}
	return nil
}

// refusal is an error response from the engine.
type refusal struct{ status, text string }

func (r *refusal) Error() string {
	return fmt.Sprintf("the ClickHouse engine answered %s: %s", r.status, r.text)
}

func (e *Engine) statement(ctx context.Context, who Login, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	return e.request(ctx, http.MethodPost, "/", who, sql)
}

func (e *Engine) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingMax)
	defer cancel()
	_, err := e.request(ctx, http.MethodGet, "/ping", Login{}, "")
	return err
}

func (e *Engine) request(
	ctx context.Context, method, path string, who Login, body string,
) (string, error) {
	return e.requestBy(ctx, e.http, method, path, who, body)
}

// requestBy contacts the server directly. Otherwise, clients that use up all connections would look
// like a server that hangs.
func (e *Engine) requestBy(
	ctx context.Context, by *http.Client, method, path string, who Login, body string,
) (string, error) {
	req, err := http.NewRequestWithContext(
		ctx, method, "http://"+e.inner.httpAddr()+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if who.User != "" { // otherwise ClickHouse uses its default user
		req.SetBasicAuth(who.User, who.Password)
	}
	resp, err := by.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerMaxBytes))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(b))
	if resp.StatusCode != http.StatusOK {
		return "", &refusal{resp.Status, text}
	}
	return text, nil
}

// supervise owns the child: nothing else starts, stops or replaces it.
func (e *Engine) supervise(ctx context.Context, c *child) {
	defer close(e.done)
	defer e.closePorts()
	waits := e.restarting().Backoff()
	for {
		began := time.Now()
		err := e.watch(ctx, c)
		e.setDown(err)
		if ctx.Err() != nil {
			for _, p := range e.ports {
				p.drain()
			}
			e.stopErr = c.stop()
			return
		}
		c.kill()
		if time.Since(began) > provenAfter {
			waits.Reset()
		}
		for {
			if waits.Wait(ctx, err) != nil {
				return
			}
			e.restarts.Add(1)
			if c, err = e.launch(ctx); err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			e.setDown(err)
		}
		e.setUp(c)
		e.cfg.Logger.Info("the ClickHouse engine serves again", "pid", c.cmd.Process.Pid, "restarts",
			e.restarts.Load())
	}
}

// restarting is the policy for restarts of the child. Each restart is logged.
func (e *Engine) restarting() retry.Policy {
	return retry.Policy{
		First: 100 * time.Millisecond,
		Last:  10 * time.Second,
		OnFailure: func(f retry.Failure) {
			e.cfg.Logger.Error("the ClickHouse engine is down; starting it again", "err", f.Err, "wait",
				f.Wait, "restarts", e.restarts.Load())
		},
	}
}

// watch returns when the child has died, hangs, or should stop.
func (e *Engine) watch(ctx context.Context, c *child) error {
	tick := time.NewTicker(e.cfg.HealthInterval)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			return errors.New("the ClickHouse engine is stopped")
		case <-c.exited:
			return c.lastWords(e.folder)
		case <-tick.C:
			err := e.ping(ctx)
			if err == nil {
				answered = time.Now()
			} else if silent := time.Since(answered); silent > e.cfg.HangAfter && ctx.Err() == nil {
				return fmt.Errorf("the ClickHouse engine (process %d) has not answered for %s: %w",
					c.cmd.Process.Pid, silent.Round(time.Millisecond), err)
			}
		}
	}
}

func (e *Engine) setUp(c *child)    { e.set(true, c.cmd.Process.Pid, nil) }
func (e *Engine) setDown(err error) { e.set(false, 0, err) }

func (e *Engine) set(up bool, pid int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.up, e.pid, e.lastErr = up, pid, err
	close(e.changed)
	e.changed = make(chan struct{})
}

// Ready waits until the server accepts connections, which is immediately unless it is being
// restarted. The error explains why it is down.
func (e *Engine) Ready(ctx context.Context) error {
	for {
		e.mu.Lock()
		up, err, changed := e.up, e.lastErr, e.changed
		e.mu.Unlock()
		if up {
			return nil
		}
		select {
		case <-changed:
		case <-e.done:
			return errors.New("the ClickHouse engine is stopped")
		case <-ctx.Done():
			return fmt.Errorf("waiting for the ClickHouse engine: %w (%v)", ctx.Err(), err)
		}
	}
}

// Stop stops the server gracefully, or by force if that takes more than a few seconds, which the
// error then reports. It also unlocks the data folder. It can be called more than once.
func (e *Engine) Stop() error {
	e.quit()
	<-e.done
	if err := os.Remove(e.folder.record()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the record of the ClickHouse engine: %w", err)
	}
	if err := e.lock.Close(); err != nil {
		return fmt.Errorf("unlocking the ClickHouse data folder: %w", err)
	}
	return e.stopErr
}

// NativeAddr returns the address of the native protocol as host:port.
func (e *Engine) NativeAddr() string { return e.listen.nativeAddr() }

// HTTPURL returns the base URL of the HTTP interface, without a trailing slash.
func (e *Engine) HTTPURL() string { return "http://" + e.listen.httpAddr() }

// Database returns the name of the database, which exists once the engine is ready.
func (e *Engine) Database() string { return e.cfg.Database }

// Service returns the login that can fill the database.
func (e *Engine) Service() Login { return e.cfg.Service }

// Reader returns the login that can read the database.
func (e *Engine) Reader() Login { return e.cfg.Reader }

// DSN returns a DSN for clickhouse-go with the service's login.
func (e *Engine) DSN() string { return e.dsn(e.cfg.Service) }

// ReaderDSN is like DSN, with the reader's login.
func (e *Engine) ReaderDSN() string { return e.dsn(e.cfg.Reader) }

func (e *Engine) dsn(who Login) string {
	u := url.URL{
		Scheme: "clickhouse",
		User:   url.UserPassword(who.User, who.Password),
		Host:   e.NativeAddr(),
		Path:   "/" + e.cfg.Database,
	}
	return u.String()
}

// Restarts returns the number of restarts of the child.
func (e *Engine) Restarts() int64 { return e.restarts.Load() }

// PID returns the child's process id, or 0 while it is down.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pid
}
