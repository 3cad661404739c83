package api_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// gated is a directory that holds up the lists of watches of one account.
type gated struct {
	api.Directory
	account string
	pass    chan struct{}
	running atomic.Int32
}

func (g *gated) Watches(
	f readmodel.WatchFilter, after *readmodel.Position, limit int,
) ([]domain.Watch, *readmodel.Position, error) {
	if f.AccountID == g.account {
		g.running.Add(1)
		<-g.pass
		g.running.Add(-1)
	}
	return g.Directory.Watches(f, after, limit)
}

// TestReadsOfAnAccountTakeTurns: of 64 lists by the keys of an account 8 run at once and the others
// wait, also those by another key. Another account waits for none of them.
func TestReadsOfAnAccountTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const atOnce = 8
		g := &gated{account: account("a"), pass: make(chan struct{})}
		w := assemble(t, withLinks, func(c *api.Config) {
			g.Directory, c.Directory = c.Directory, g
		})
		list := func(path, key string) int {
			request := httptest.NewRequest("GET", path, nil)
			request.Header.Set("Authorization", "Bearer "+key)
			out := httptest.NewRecorder()
			w.api.ServeHTTP(out, request)
			return out.Code
		}
		keys := []string{
			w.newKey(account("a"), domain.PermissionRead), w.newKey(account("a"), domain.PermissionRead),
		}
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
