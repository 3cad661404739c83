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

// history responds like the API, with the events 1 to 5, which are signed now. Event 3 is no longer
// stored.
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

// A listener must hand over each event once, pull an event again if its function asks for that, and
// report a missing event once.
func TestAListenerPullsAgain(t *testing.T) {
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
			"since=2000-01-01T00%3A00%3A00Z", "after=3&waitSeconds=30", "after=5&waitSeconds=30",
		}
		if !slices.Equal(h.asked, want) {
			t.Errorf("it asked %q", h.asked)
		}
	})
}

// outages has no events, so it responds after the requested wait. It is down from the 1st minute to
// the 10th and from the 20th to the 21st, and refuses requests from the 30th on.
type outages struct {
	began time.Time
	asked []string // the first query after each outage
	away  bool
}

func (o *outages) RoundTrip(r *http.Request) (*http.Response, error) {
	minute := int(time.Since(o.began) / time.Minute)
	if minute >= 1 && minute < 10 || minute == 20 {
		o.away = true
		return nil, errors.New("it is away")
	}
	if o.away {
		o.asked, o.away = append(o.asked, r.URL.RawQuery), false
	}
	seconds, _ := strconv.Atoi(r.URL.Query().Get("waitSeconds"))
	<-time.After(time.Duration(seconds) * time.Second) // in the bubble's time
	out := httptest.NewRecorder()
	if minute >= 30 {
		out.Header().Set("Content-Type", "application/problem+json")
		out.WriteHeader(http.StatusForbidden)
		out.WriteString(`{"status":403,"code":"MISSING_PERMISSION"}`)
	} else {
		out.WriteString(`{"data":[],"missing":[],"nextAfter":7}`)
	}
	return out.Result(), nil
}

// However often the listener tries while the service is down, it must report the outage once. It
// must report the end of the outage at once, even if there is no event.
func TestAListenerTellsOfEachOutageOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outages{began: time.Now()}
		c, err := client.New("http://127.0.0.1:1", "key", &http.Client{Transport: o})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		l := client.Listener{
			Client:     c,
			EndpointID: "ep_1",
			Away:       func(_ error, after int64) { told = append(told, fmt.Sprintf("away %d", after)) },
			Back:       func(after int64) { told = append(told, fmt.Sprintf("back %d", after)) },
		}
		var refused *client.Problem
		if err := l.Run(t.Context()); !errors.As(err, &refused) {
			t.Errorf("it ended with %v", err)
		}
		if want := []string{"away 7", "back 7", "away 7", "back 7"}; !slices.Equal(told, want) {
			t.Errorf("it told %q", told)
		}
		if want := []string{"after=7", "after=7"}; !slices.Equal(o.asked, want) {
			t.Errorf("it was back when it was asked %q", o.asked)
		}
	})
}
