package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// gated is a directory that holds up the lists of watches of one account, or of all.
type gated struct {
	api.Directory
	account string
	pass    chan struct{}
	running atomic.Int32
}

func (g *gated) Watches(
	f readmodel.WatchFilter, after *readmodel.Position, limit int,
) ([]domain.Watch, *readmodel.Position, error) {
	if g.account == "" || f.AccountID == g.account {
		g.running.Add(1)
		<-g.pass
		g.running.Add(-1)
	}
	return g.Directory.Watches(f, after, limit)
}

// Of 64 lists by an account, 8 run at once and the others wait, whichever of its keys they use.
// Another account must not wait for them.
func TestReadsOfAnAccountTakeTurns(t *testing.T) {
	t.Run("of the default quota", func(t *testing.T) { readsTakeTurns(t, 8, domain.Counts{}) })
	t.Run("of its own quota", func(t *testing.T) { readsTakeTurns(t, 3, domain.Counts{Reads: 3}) })
}

func readsTakeTurns(t *testing.T, atOnce int32, quotas domain.Counts) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{account: account("a"), pass: make(chan struct{})}
		w := assemble(t, withLinks, func(c *api.Config) {
			g.Directory, c.Directory = c.Directory, g
		})
		list := func(path, key string) int { return w.direct("GET", path, key, "").Code }
		keys := []string{
			w.newKey(account("a"), domain.PermissionRead), w.newKey(account("a"), domain.PermissionRead),
		}
		w.setQuotas(account("a"), quotas)
		neighbour := w.newKey(account("b"), domain.PermissionRead)
		var flood sync.WaitGroup
		for i := range 64 {
			flood.Go(func() {
				if status := list("/v1/watches?limit=250", keys[i%2]); status != 200 {
					t.Errorf("a list that waited got %d", status)
				}
			})
		}
		for left := 64; left > 0; left-- {
			synctest.Wait()
			if running := g.running.Load(); running != min(atOnce, int32(left)) {
				t.Fatalf("%d lists of the account run at once, with %d left", running, left)
			}
			if status := list("/v1/watches", neighbour); status != 200 {
				t.Fatalf("the neighbour's list got %d", status)
			}
			g.pass <- struct{}{}
		}
		flood.Wait()
	})
}

func (w *world) direct(method, path, key, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	w.api.ServeHTTP(out, request)
	return out
}

// recalls is a history that holds up the lookup of events that are resent.
type recalls struct {
	api.History
	pass    chan struct{}
	running atomic.Int32
}

func (h *recalls) Recall(
	ctx context.Context, accountID, eventID string,
) (readmodel.Recalled, error) {
	h.running.Add(1)
	<-h.pass
	h.running.Add(-1)
	return h.History.Recall(ctx, accountID, eventID)
}

// Of 64 resends by an account, 8 look their event up at once. A resend of many events takes one
// turn and looks up two of them at once.
func TestResendsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &recalls{pass: make(chan struct{})}
		w := assemble(t, func(c *api.Config) { h.History, c.History = c.History, h })
		key := w.newKey(account("a"), domain.Permissions()...)
		endpoint := domain.DeriveID(domain.EndpointPrefix, "1")
		var events []string
		for i := range 64 {
			events = append(events, w.deliveredOf(fmt.Sprint(i+1), account("a"), endpoint,
				domain.StateFailed, domain.AttemptResult{SentAtMillis: 1}).ID)
		}
		post := func(path, body string) {
			if out := w.direct("POST", path, key, body); out.Code != 200 {
				t.Errorf("POST %s got %d: %s", path, out.Code, out.Body)
			}
		}
		passing := func(most int32) {
			for left := int32(64); left > 0; left-- {
				synctest.Wait()
				if n := h.running.Load(); n != min(most, left) {
					t.Fatalf("%d events are looked up at once, with %d left", n, left)
				}
				h.pass <- struct{}{}
			}
		}
		var all sync.WaitGroup
		for _, id := range events {
			all.Go(func() { post("/v1/events/"+id+"/resend", "") })
		}
		passing(8)
		all.Wait()
		all.Go(func() { post("/v1/events/resend", `{"asset":"XLM"}`) })
		passing(2)
		all.Wait()
	})
}

// While eight lists of an account run, its pulls, backfills, replays, resends and other reads must
// wait for them.
func TestBulkOperationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{pass: make(chan struct{})}
		w := assemble(t, func(c *api.Config) { g.Directory, c.Directory = c.Directory, g })
		key := w.newKey(account("a"), domain.Permissions()...)
		endpoint, watch := domain.DeriveID(domain.EndpointPrefix, "1"),
			domain.DeriveID(domain.WatchPrefix, "1")
		w.endpoints[endpoint] = domain.Endpoint{ID: endpoint, AccountID: account("a"),
			Status: domain.StatusActive}
		w.watches[watch] = domain.Watch{ID: watch, AccountID: account("a"), EndpointID: endpoint,
			WalletAddress: wallet}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { w.direct("GET", "/v1/watches", key, "") })
		}
		synctest.Wait()
		asked := [][3]string{
			{"GET", "/v1/endpoints/" + endpoint + "/events"},
			{"GET", "/v1/endpoints/" + endpoint + "/events?waitSeconds=30"},
			{"POST", "/v1/endpoints/" + endpoint + "/replay", `{"since":"2026-01-01T00:00:00Z"}`},
			{"POST", "/v1/watches/" + watch + "/backfill", `{"from":2}`},
			{"POST", "/v1/events/resend", `{"asset":"XLM","dryRun":true}`},
			{"POST", "/v1/events/" + domain.DeriveID(domain.EventPrefix, "1") + "/resend"},
			{"GET", "/v1/events"}, {"GET", "/v1/endpoints"}, {"GET", "/v1/account"},
			{"GET", "/v1/wallets/" + wallet + "/statement"},
		}
		answered := make(chan string, len(asked))
		for _, r := range asked {
			all.Go(func() {
				out := w.direct(r[0], r[1], key, r[2])
				answered <- fmt.Sprint(r[1], " got ", out.Code)
			})
		}
		synctest.Wait()
		for len(answered) > 0 {
			t.Errorf("without a turn, %s", <-answered)
		}
		close(g.pass)
		all.Wait()
	})
}

// held is a history that reports how much time a list of events has, and holds up CatchUp.
type held struct {
	api.History
	left chan time.Duration
	pass chan struct{}
}

func (h *held) Events(
	ctx context.Context, f readmodel.EventFilter, after *readmodel.Position, limit int,
) ([]readmodel.Event, *readmodel.Position, error) {
	deadline, _ := ctx.Deadline()
	h.left <- time.Until(deadline) //nolint:forbidigo // the clock of synctest
	return h.History.Events(ctx, f, after, limit)
}

func (h *held) CatchUp(context.Context) error {
	<-h.pass
	return nil
}

// Waiting for a turn must not use up the time for the work, and must be bounded.
func TestTheWaitForATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{pass: make(chan struct{})}
		h := &held{left: make(chan time.Duration, 1)}
		w := assemble(t, func(c *api.Config) {
			g.Directory, c.Directory, h.History, c.History = c.Directory, g, c.History, h
		})
		key := w.newKey(account("a"), domain.Permissions()...)
		var all sync.WaitGroup
		ask := func(path string, status int) {
			all.Go(func() {
				if out := w.direct("GET", path, key, ""); out.Code != status {
					t.Errorf("GET %s got %d: %s", path, out.Code, out.Body)
				}
			})
			synctest.Wait()
		}
		for range 8 {
			ask("/v1/watches", 200)
		}
		ask("/v1/events", 200)
		<-time.After(5 * time.Second)
		g.pass <- struct{}{}
		if left := <-h.left; left != 15*time.Second {
			t.Errorf("%s are left for the work", left)
		}
		synctest.Wait()
		ask("/v1/watches", 200)
		ask("/v1/events", 429)
		<-time.After(7 * time.Second)
		close(g.pass)
		all.Wait()
	})
}

// Commands that wait for the engine, and choices of events that wait for the history, must not hold
// up an account's reads.
func TestNoTurnIsHeldInAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{pass: make(chan struct{})}
		w := assemble(t, func(c *api.Config) { h.History, c.History = c.History, h })
		key := w.newKey(account("a"), domain.Permissions()...)
		made := w.direct("POST", "/v1/endpoints", key, `{"url":"https://a.example"}`)
		e := "/v1/endpoints/" + in(t, made.Body.Bytes(), "id").(string)
		w.gate = make(chan struct{})
		for _, one := range []struct {
			path, body string
			pass       chan struct{}
		}{
			{e + "/replay", `{"since":"2026-01-01T00:00:00Z"}`, w.gate},
			{"/v1/events/resend", `{"asset":"XLM","dryRun":true}`, h.pass},
		} {
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if out := w.direct("POST", one.path, key, one.body); out.Code != 200 {
						t.Errorf("POST %s got %d: %s", one.path, out.Code, out.Body)
					}
				})
			}
			synctest.Wait()
			read := make(chan int, 1)
			go func() { read <- w.direct("GET", "/v1/watches", key, "").Code }()
			synctest.Wait()
			select {
			case status := <-read:
				if status != 200 {
					t.Errorf("during %s a list got %d", one.path, status)
				}
			default:
				t.Errorf("during %s a list waits", one.path)
			}
			close(one.pass)
			all.Wait()
		}
	})
}

// pipes is a listener whose connections have no buffers.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve starts the API's server. dial connects to it without buffers, and stop stops it.
func serve(t *testing.T, handler http.Handler) (dial func() net.Conn, stop func()) {
	listener := make(pipes)
	server := api.NewServer(handler, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	dial = func() net.Conn {
		client, conn := net.Pipe()
		listener <- conn
		return client
	}
	return dial, func() {
		if err := errors.Join(server.Close(), <-ended); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

// Clients that don't read their responses must lose their connections before others give up waiting
// for a turn.
func TestSlowReadersLoseTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := assemble(t)
		for i := range 50 {
			id := domain.DeriveID(domain.WatchPrefix, fmt.Sprint(i))
			w.watches[id] = domain.Watch{ID: id, AccountID: account("a")}
		}
		key := w.newKey(account("a"), domain.PermissionRead)
		dial, stop := serve(t, w.api)
		for range 8 {
			client := dial()
			defer client.Close()
			_, err := fmt.Fprintf(client, "GET /v1/watches HTTP/1.1\r\nHost: a\r\n"+
				"Authorization: Bearer %s\r\n\r\n", key)
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if out := w.direct("GET", "/v1/watches", key, ""); out.Code != 200 {
			t.Errorf("a list got %d: %s", out.Code, out.Body)
		}
		stop()
	})
}

// At most eight pages of an account may be in memory, including those of the console. Browsers that
// don't read theirs must lose their connections before others give up waiting.
func TestUnreadPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := assemble(t)
		for i := range 50 {
			id := domain.DeriveID(domain.WatchPrefix, fmt.Sprint(i))
			w.watches[id] = domain.Watch{ID: id, AccountID: account("a")}
		}
		handler := newConsole(t, w).Mount(w.api)
		cookie := signInDirectly(t, handler, w.newKey(account("a"), domain.PermissionRead))

		dial, stop := serve(t, handler)
		for range 8 {
			client := dial()
			defer client.Close()
			_, err := fmt.Fprintf(client, "GET /console/watches HTTP/1.1\r\nHost: a\r\nCookie: %s\r\n\r\n",
				cookie)
			if err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		ninth := make(chan int, 1)
		go func() {
			ninth <- visit(handler, "/console/watches", cookie)
		}()
		synctest.Wait()
		if len(ninth) > 0 {
			t.Error("the ninth page does not wait for the others to be read")
		}
		if status := <-ninth; status != 200 {
			t.Errorf("the ninth page got %d", status)
		}
		stop()
	})
}

// An account may have 256 requests in progress, and another one must be refused. 64 reads of all
// accounts run at a time, whatever the number of accounts.
func TestRequestsInProgressAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, atOnce = 256, 64
		g := &gated{pass: make(chan struct{})}
		w := assemble(t, func(c *api.Config) { g.Directory, c.Directory = c.Directory, g })
		list := func(key string) *httptest.ResponseRecorder {
			return w.direct("GET", "/v1/watches", key, "")
		}
		var flood sync.WaitGroup
		start := func(key string, n int) {
			for range n {
				flood.Go(func() {
					if out := list(key); out.Code != 200 {
						t.Errorf("a list within the bounds got %d: %s", out.Code, out.Body)
					}
				})
			}
			synctest.Wait()
		}
		key := w.newKey(account("a"), domain.PermissionRead)
		start(key, most)
		for range 3 {
			out := list(w.newKey(account("a"), domain.PermissionRead))
			if out.Code != http.StatusTooManyRequests || out.Header().Get("Retry-After") != "1" ||
				!strings.Contains(out.Body.String(), "TOO_MANY_PARALLEL_REQUESTS") {
				t.Errorf("one more got %d: %v, %s", out.Code, out.Header(), out.Body)
			}
		}
		for i := range 20 {
			start(w.newKey(account(fmt.Sprint(i)), domain.PermissionRead), 8)
		}
		for left := most + 20*8; left > 0; left-- {
			if running := g.running.Load(); running > atOnce || left == most+20*8 && running != atOnce {
				t.Fatalf("%d lists of all accounts run at once, with %d left", running, left)
			}
			g.pass <- struct{}{}
			synctest.Wait()
		}
		flood.Wait()
		start(key, 0)
		go func() { g.pass <- struct{}{} }()
		if out := list(key); out.Code != 200 {
			t.Errorf("after the flood a list got %d", out.Code)
		}
	})
}

// BenchmarkNeighbourOfAFlood measures the GET of a watch while 64 clients of another account list
// pages of 250 watches with 1,000 senders each.
func BenchmarkNeighbourOfAFlood(b *testing.B) {
	w := newWorld(b, func(c *api.Config) { c.Log = slog.New(slog.DiscardHandler) })
	flooding, neighbour := w.newKey(account("a"), domain.PermissionRead),
		w.newKey(account("b"), domain.PermissionRead)
	for i := range 250 {
		x := domain.Watch{ID: domain.DeriveID(domain.WatchPrefix, fmt.Sprint(i)), AccountID: account("a")}
		for n := range 1000 {
			x.Rules.SenderAllowlist = append(x.Rules.SenderAllowlist, fmt.Sprintf("G%055d", n))
		}
		w.watches[x.ID] = x
	}
	one := domain.Watch{ID: domain.DeriveID(domain.WatchPrefix, "one"), AccountID: account("b")}
	w.watches[one.ID] = one
	get := func(path, key string) int {
		request, err := http.NewRequest(http.MethodGet, w.server.URL+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		response, err := w.server.Client().Do(request)
		if err != nil {
			return 0
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	var ended atomic.Bool
	var flood sync.WaitGroup
	for range 64 {
		flood.Go(func() {
			for !ended.Load() {
				get("/v1/watches?limit=250", flooding)
			}
		})
	}
	for b.Loop() {
		if status := get("/v1/watches/"+one.ID, neighbour); status != 200 {
			b.Fatal(status)
		}
	}
	b.StopTimer()
	ended.Store(true)
	flood.Wait()
}

// Clients that send large bodies slowly must take up no more than their account's share of memory,
// and all accounts no more than the node's. Another large body must be refused, but small ones must
// not. The server's time limit frees the memory.
func TestBodiesInProgressAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, small, ofAccount, accounts = 256 << 10, 8 << 10, 16, 8
		w := assemble(t)
		dial, stop := serve(t, w.api)
		stall := func(key, length string) {
			client := dial()
			t.Cleanup(func() { client.Close() })
			if _, err := fmt.Fprintf(client, "POST /v1/endpoints HTTP/1.1\r\nHost: a\r\n"+
				"Authorization: Bearer %s\r\nContent-Type: application/json\r\n%s\r\n\r\n",
				key, length); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.Copy(io.Discard, client) }()
			synctest.Wait()
		}
		endpoint := func(size int) string {
			body := `{"url":"https://a.example/"}`
			return body + strings.Repeat(" ", max(0, size-len(body)))
		}
		want := func(key string, size, status int, code string) {
			t.Helper()
			out := w.direct("POST", "/v1/endpoints", key, endpoint(size))
			if out.Code != status || !strings.Contains(out.Body.String(), code) ||
				status != http.StatusCreated && out.Header().Get("Retry-After") != "1" {
				t.Errorf("a body of %d bytes got %d %v: %s", size, out.Code, out.Header(), out.Body)
			}
		}
		fill := func(of int) {
			key := w.newKey(account(fmt.Sprint(of)), domain.PermissionWrite)
			for range ofAccount / 2 {
				stall(key, fmt.Sprint("Content-Length: ", large))
				stall(key, "Transfer-Encoding: chunked")
			}
		}
		fill(0)
		same := w.newKey(account("0"), domain.PermissionWrite)
		want(same, large, http.StatusTooManyRequests, "TOO_MANY_PARALLEL_REQUESTS")
		want(same, small, http.StatusCreated, "")
		other := w.newKey(account("other"), domain.PermissionWrite)
		want(other, large, http.StatusCreated, "")
		for of := 1; of < accounts; of++ {
			fill(of)
		}
		want(other, large, http.StatusServiceUnavailable, "OVERLOADED")
		want(other, small, http.StatusCreated, "")
		<-time.After(15 * time.Second)
		want(same, large, http.StatusCreated, "")
		stop()
	})
}
