package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/node"
)

// TestAnEventIsTracedFromLedgerToAttempt checks that the spans of a payment's event arrive at a
// collector, under the trace that the event's id determines.
func TestAnEventIsTracedFromLedgerToAttempt(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	names := make(map[[16]byte]map[string]bool) // span names by trace
	spans := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body) // the exporter sends valid gzip
		}
		raw, err := io.ReadAll(body)
		sent, decodeErr := decodeSpans(raw)
		if err != nil || decodeErr != nil {
			http.Error(w, "no spans", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, span := range sent {
			id := [16]byte(span.TraceID)
			if names[id] == nil {
				names[id] = make(map[string]bool)
			}
			names[id][span.Name] = true
		}
	}))
	defer spans.Close()

	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--traces-endpoint", spans.URL+"/v1/traces")
	h := startHooks(t, s.dir)
	var e client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", h.url)
	h.mu.Lock()
	h.secret = e.Secret
	h.mu.Unlock()
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	var watch client.Watch
	s.cli(&watch, "watches", "create", "--wallet", wallet.Address, "--endpoint", e.ID)
	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", "2", "--json")
	s.eventually("a webhook", func() bool { return h.has(paid.ID) })
	var event string
	for id := range h.events() {
		event = id
	}
	trace := node.EventTrace(event).TraceID()
	s.eventually("the spans of the event", func() bool {
		mu.Lock()
		defer mu.Unlock()
		got := names[trace]
		return got["payment matched"] && got["lumenhook.matches publish"] &&
			got["lumenhook.matches receive"] &&
			got["delivery created"] && got["delivery attempt"]
	})
	s.interrupt()
}

type span struct {
	TraceID []byte `json:"traceId"`
	Name    string
}

// decodeSpans decodes an exporter's request. The exporter has registered the message type.
func decodeSpans(raw []byte) (all []span, err error) {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(
		"opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest")
	if err != nil {
		return nil, err
	}
	message := kind.New().Interface()
	if err := proto.Unmarshal(raw, message); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var sent struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []span } }
	}
	err = json.Unmarshal(text, &sent)
	for _, of := range sent.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all, err
}
