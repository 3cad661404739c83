package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// history answers as the API does, with events 1 to 5 of which 3 is no longer kept, signed now.
type history struct{ asked []string }

func (h *history) RoundTrip(r *http.Request) (*http.Response, error) {
	h.asked = append(h.asked, r.URL.RawQuery)
	out := httptest.NewRecorder()
	after, _ := strconv.Atoi(r.URL.Query().Get("after"))
	data, missing, next := "", "", after
	for n := after + 1; n <= 5; n++ {
		if n == 3 {
			missing = `{"from":3,"to":3}`
			continue
		}
		if data != "" {
			data += ","
		}
		data += fmt.Sprintf(`{"sequence":%d,"headers":{"Webhook-Timestamp":"%d"},"body":""}`, n,
			time.Now().Unix())
		next = n
	}
	if data == "" { // as if the node stopped
		out.Header().Set("Content-Type", "application/problem+json")
		out.WriteHeader(http.StatusForbidden)
		out.WriteString(`{"status":403,"code":"MISSING_PERMISSION"}`)
		return out.Result(), nil
	}
	fmt.Fprintf(out, `{"data":[%s],"missing":[%s],"nextAfter":%d}`, data, missing, next)
	return out.Result(), nil
}

// A machine that slept, or a receiver that is slow, handles events with a signature that is
// still good: what was pulled too long ago is pulled again.
func TestAListenerHandlesFreshSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		c, err := client.New("http://127.0.0.1:1", "key", &http.Client{Transport: h})
		if err != nil {
			t.Fatal(err)
		}
		var handled, missing []int64
		again := false
		l := client.Listener{
			Client:     c,
			EndpointID: "ep_1",
			From:       client.Pull{Since: time.Now()},
			Missing:    func(n client.Numbers) { missing = append(missing, n.From) },
			Handle: func(_ context.Context, e client.PulledEvent) error {
				signed, err := strconv.ParseInt(e.Headers.Timestamp, 10, 64)
				if age := time.Since(time.Unix(signed, 0)); err != nil || age > time.Minute {
					t.Errorf("number %d is %s old (%v)", e.Sequence, age, err)
				}
				<-time.After(40 * time.Second) // of the bubble
				if e.Sequence == 4 && !again {
					again = true
					return client.ErrPullAgain
				}
				handled = append(handled, e.Sequence)
				return nil
			},
		}
		err = l.Run(t.Context())
		var refused *client.Problem
		if !errors.As(err, &refused) || refused.Code != "MISSING_PERMISSION" {
			t.Errorf("it ended with %v", err)
		}
		if !slices.Equal(handled, []int64{1, 2, 4, 5}) || !slices.Equal(missing, []int64{3}) {
			t.Errorf("it handled %d, and was told that %d are missing; it asked %q", handled, missing,
				h.asked)
		}
		want := []string{
			"since=2000-01-01T00%3A00%3A00Z", "after=3&waitSeconds=30", "after=3&waitSeconds=30",
			"after=5&waitSeconds=30",
		}
		if !slices.Equal(h.asked, want) {
			t.Errorf("it asked %q", h.asked)
		}
	})
}
