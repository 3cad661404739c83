package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Browsers that read statements slowly must not take up places of pages. An account gets only two
// downloads at a time, and they end after ten minutes.
func TestSlowDownloadsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := assemble(t)
		w.followed.MovesSince, w.followed.Ledger = 5, 70_000
		for n := range uint32(15_000) {
			w.statement.Moves = append(w.statement.Moves, moved(9+n, 1, 2))
		}
		w.statement.Balances = []readmodel.Balance{{Balance: "XLM", Moves: 1, ClosingStroops: 2}}
		handler := newConsole(t, w).Mount(w.api)
		dial, stop := serve(t, handler)
		var all sync.WaitGroup
		began := time.Now() //nolint:forbidigo // virtual
		statuses := make(chan string, 32)
		for n := range 32 {
			cookie := w.downloader(handler, fmt.Sprint(n/8))
			client := dial()
			all.Go(func() {
				defer client.Close()
				_, err := fmt.Fprintf(client, "GET /console/wallets/%s/statement.csv HTTP/1.1\r\n"+
					"Host: a\r\nCookie: %s\r\nConnection: close\r\n\r\n", wallet, cookie)
				if err != nil {
					t.Error(err)
				}
				part := make([]byte, 4096)
				read, _ := client.Read(part)
				statuses <- string(part[9:min(read, 12)])
				for err == nil {
					time.Sleep(3 * time.Second) //nolint:forbidigo // virtual
					_, err = io.ReadAtLeast(client, part, 1)
				}
			})
		}
		other := w.downloader(handler, "other")
		get := func(path string) int { return visit(handler, "/console"+path, other) }
		for range 6 {
			time.Sleep(20 * time.Second) //nolint:forbidigo // virtual
			if status := get("/watches"); status != http.StatusOK {
				t.Errorf("another account's page got %d", status)
			}
		}
		counts := map[string]int{}
		for range 32 {
			counts[<-statuses]++
		}
		if counts["200"] != 8 || counts["429"] != 24 {
			t.Errorf("the downloads got %v", counts)
		}
		if status := get("/wallets/" + wallet + "/statement.csv"); status != 429 {
			t.Errorf("a ninth download got %d", status)
		}
		time.Sleep(10*time.Minute - time.Since(began)) //nolint:forbidigo // virtual
		if status := get("/wallets/" + wallet + "/statement.csv"); status != http.StatusOK {
			t.Errorf("after ten minutes, a download got %d", status)
		}
		stop()
		all.Wait()
	})
}

// downloader signs in with a new key of an account that watches the wallet, and returns the cookie.
func (w *world) downloader(console http.Handler, of string) string {
	endpoint := domain.DeriveID(domain.EndpointPrefix, of)
	watch := domain.DeriveID(domain.WatchPrefix, of)
	w.endpoints[endpoint] = domain.Endpoint{ID: endpoint, AccountID: account(of)}
	w.watches[watch] = domain.Watch{ID: watch, AccountID: account(of), WalletAddress: wallet,
		EndpointID: endpoint, LiveSince: 5, CreatedAtMillis: 1}
	return signInDirectly(w.t, console, w.newKey(account(of), domain.PermissionRead))
}

func visit(console http.Handler, path, cookie string) (status int) {
	request := httptest.NewRequest("GET", path, nil)
	request.Header.Set("Cookie", cookie)
	out := httptest.NewRecorder()
	console.ServeHTTP(out, request)
	return out.Code
}

// signInDirectly signs in with a key, without a server, and returns the cookie.
func signInDirectly(t testing.TB, console http.Handler, key string) string {
	t.Helper()
	form := httptest.NewRecorder()
	console.ServeHTTP(form, httptest.NewRequest("GET", "/console/sign-in", nil))
	fields := sheet{text: form.Body.String()}.form(t, "/console/sign-in")
	fields.Set("key", key)
	post := httptest.NewRequest("POST", "/console/sign-in", strings.NewReader(fields.Encode()))
	post.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	post.Header.Set("Cookie", form.Header().Get("Set-Cookie"))
	signed := httptest.NewRecorder()
	console.ServeHTTP(signed, post)
	cookie, _, _ := strings.Cut(signed.Header().Get("Set-Cookie"), ";")
	return cookie
}
