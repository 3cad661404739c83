package egress

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	frames "golang.org/x/net/http2"
)

// TestHandshakeIsMetered: an unrealistically long chain of certificates is not read to its
// end.
func TestHandshakeIsMetered(t *testing.T) {
	cert := ca().issue(nil)
	for range 300 {
		cert.Certificate = append(cert.Certificate, cert.Certificate[0])
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}}
	r := post(t, newClient(t, nil), "https://"+rawTLS(t, cfg, func(*tls.Conn) {}))
	wantResult(t, r, 0, TLS)
	if !strings.Contains(r.Detail, errSentTooMuch.Error()) {
		t.Errorf("the detail is %q", r.Detail)
	}
}

// TestHTTP2FloodsEnd: a receiver that floods a connection, during an attempt or after it,
// loses the connection, and the attempt has its answer or an error at once.
func TestHTTP2FloodsEnd(t *testing.T) {
	early := []byte{0x08, 0x03, '1', '0', '3'} // HPACK of ":status: 103", not indexed
	quietLog(t)
	floods := map[string]func(f *frames.Framer, stream uint32) error{
		"pings": func(f *frames.Framer, _ uint32) error {
			return f.WritePing(false, [8]byte{1})
		},
		"ping answers": func(f *frames.Framer, _ uint32) error { return f.WritePing(true, [8]byte{1}) },
		"settings":     func(f *frames.Framer, _ uint32) error { return f.WriteSettings() },
		"resets": func(f *frames.Framer, s uint32) error {
			return f.WriteRSTStream(s, frames.ErrCodeCancel)
		},
		"goodbyes": func(f *frames.Framer, s uint32) error {
			return f.WriteGoAway(s, frames.ErrCodeNo, nil)
		},
		"window updates": func(f *frames.Framer, s uint32) error { return f.WriteWindowUpdate(0, 1) },
		"interim answers": func(f *frames.Framer, s uint32) error {
			return f.WriteHeaders(frames.HeadersFrameParam{
				StreamID:      s,
				BlockFragment: early,
				EndHeaders:    true,
			})
		},
		"empty data": func(f *frames.Framer, s uint32) error { return f.WriteData(s, false, nil) },
		"header continuations": func(f *frames.Framer, s uint32) error {
			return f.WriteContinuation(s, false, []byte{0x00, 0x01, 'a', 0x01, 'b'})
		},
		"unknown frames": func(f *frames.Framer, s uint32) error {
			return f.WriteRawFrame(0xee, 0, s, make([]byte, 64))
		},
	}
	for name, flood := range floods {
		times := map[string]bool{"before the answer": false, "after the answer": true}
		for when, answered := range times {
			t.Run(name+" "+when, func(t *testing.T) {
				var requests atomic.Int32
				ended := make(chan struct{}, 8)
				url := http2Frames(t, &requests, func(f *frames.Framer, _ int32, stream uint32) bool {
					if answered {
						answer200(f, stream)
					}
					if name == "header continuations" {
						_ = f.WriteHeaders(frames.HeadersFrameParam{StreamID: stream + 2, BlockFragment: early})
					}
					for flood(f, stream) == nil {
					}
					ended <- struct{}{}
					return false
				})
				c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = time.Hour })
				r := post(t, c, url)
				if answered {
					wantResult(t, r, 200, "")
				} else {
					wantResult(t, r, 0, ConnRefused)
				}
				awaitClose(t, ended)
				if n := requests.Load(); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		}
	}
}

// TestMeterGrantsWhatIsUsed: a long-lived connection is never cut off for its total
// traffic.
func TestMeterGrantsWhatIsUsed(t *testing.T) {
	bothProtocols(t, func(t *testing.T, http2 bool) {
		body := make([]byte, 60<<10)
		s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(body)
		}, http2)
		c := newClient(t, nil)
		for range 60 {
			wantResult(t, post(t, c, s.URL), 200, "")
		}
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		if c.pool.idle.Len()+c.pool.shared != 1 {
			t.Errorf("%d connections after 60 attempts in a row", c.pool.idle.Len()+c.pool.shared)
		}
	})
}
