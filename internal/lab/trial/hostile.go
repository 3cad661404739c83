package trial

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The hostile tenant has an account that the model doesn't know. It attacks while the other
// accounts are paid. The model's expectations for these don't change. In addition, the tenant must
// be denied access to what isn't its own, and the others' requests must be answered in time.
const (
	floodRequests    = 32               // concurrent requests
	floodConnections = 200              // per port
	neighbourMax     = 10 * time.Second // for another account's read, on a machine under load
	residentMaxKiB   = 1 << 20          // resident memory without ClickHouse: the chart's limit
)

// Attacks are the modes of the operation "attack".
var Attacks = []string{
	"lists", "backfills", "tests", "connections", "keys", "others", "paths", "forge",
}

// hostile is the hostile tenant's account, with an endpoint whose receiver hangs, a watch, and
// another watch of a wallet that belongs to others.
type hostile struct {
	key, endpoint, watch, secret string
}

// forged is a signed webhook of the hostile tenant's own endpoint.
type forged struct {
	id, timestamp, signature string
	body                     []byte
}

// toleranceSeconds is the receiver kits' maximum age of a webhook.
const toleranceSeconds = 300

// acceptedBy reports whether a receiver kit with a secret accepts the webhook at a time.
func (f forged) acceptedBy(secret string, nowSeconds int64) bool {
	seconds, err := strconv.ParseInt(f.timestamp, 10, 64)
	if err != nil || max(nowSeconds-seconds, seconds-nowSeconds) > toleranceSeconds {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s.%s", f.timestamp, f.body)
	want := "v1=" + hex.EncodeToString(mac.Sum(nil))
	return slices.Contains(strings.Split(f.signature, ","), want)
}

// checkForged checks that none of the others' receivers would accept what the hostile tenant can
// forward. Its own receiver must accept it, which shows that the check works.
func (w *world) checkForged() {
	for _, f := range w.receivers.forged {
		seconds, _ := strconv.ParseInt(f.timestamp, 10, 64)
		if !f.acceptedBy(w.hostile.secret, seconds) {
			w.violate("HOSTILE", "%s is not signed for its own endpoint: %s", f.id, f.signature)
		}
		if f.acceptedBy(w.hostile.secret, seconds+toleranceSeconds+1) {
			w.violate("HOSTILE", "%s is accepted after the tolerance", f.id)
		}
		for _, a := range w.accounts {
			for slot, e := range a.endpoints {
				for _, s := range e.secrets {
					if f.acceptedBy(s.text, seconds) {
						w.violate("HOSTILE", "%s of the hostile tenant is accepted at %s", f.id, slot)
					}
				}
			}
		}
	}
}

// attackForge gets signed webhooks of its own endpoint from a test and a pull, to forward them. A
// pulled event is signed for the time of its creation, so that it ages.
func (w *worker) attackForge(ctx context.Context, op Op) error {
	at := "/v1/endpoints/" + w.hostile.endpoint
	_, err := w.call(ctx, request{method: "POST", path: at + "/test", key: w.hostile.key})
	if err != nil {
		return err
	}
	var page struct {
		Data []struct {
			Headers map[string]string
			Body    string
		}
	}
	got, err := w.call(ctx, request{method: "GET", path: at + "/events", key: w.hostile.key})
	if err != nil || got.status != http.StatusOK {
		return err // the history may be unavailable
	}
	if err := got.into(&page); err != nil {
		return err
	}
	for _, one := range page.Data {
		f := forged{one.Headers["Webhook-Id"], one.Headers["Webhook-Timestamp"],
			one.Headers["Webhook-Signature"], []byte(one.Body)}
		w.receivers.forge(f)
		var event struct{ CreatedAt time.Time }
		if err := json.Unmarshal(f.body, &event); err != nil ||
			fmt.Sprint(event.CreatedAt.Unix()) != f.timestamp {
			w.violate("HOSTILE", "%s: %s, created at %s, is pulled with the timestamp %q", op, f.id,
				event.CreatedAt, f.timestamp)
		}
	}
	return nil
}

func (w *world) openHostile(ctx context.Context) error {
	a, err := w.openAccount(ctx, accounts)
	if err != nil {
		return err
	}
	w.hostile.key = a.key
	var made struct{ ID, Secret string }
	create := func(path string, body any, into *string) error {
		got, err := w.call(ctx, request{method: "POST", path: path, key: a.key, body: body})
		if err == nil {
			err = got.into(&made)
		}
		*into = made.ID
		return err
	}
	hook := w.receivers.urls["h2"] + "/hostile"
	err = create("/v1/endpoints", map[string]any{"url": hook}, &w.hostile.endpoint)
	if err != nil {
		return err
	}
	w.hostile.secret = made.Secret
	var senders []string
	for n := range 50 {
		senders = append(senders, w.walletOf(fmt.Sprint("hostile", n)).Address())
	}
	watch := map[string]any{
		"walletAddress": w.walletOf("g0").Address(), "endpointId": w.hostile.endpoint,
		"assets": []string{"XLM"},
	}
	// Its events are about the others' payments, with their memos.
	if err := create("/v1/watches", watch, &w.hostile.watch); err != nil {
		return err
	}
	watch["walletAddress"], watch["senderAllowlist"] = senders[0], senders[1:]
	return create("/v1/watches", watch, &w.hostile.watch)
}

func (w *worker) attack(ctx context.Context, op Op) error {
	info, err := w.service.await(ctx)
	if err != nil {
		return err
	}
	from := time.Now()
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	ended := make(chan struct{})
	var neighbour sync.WaitGroup
	neighbour.Go(func() { w.readsMeanwhile(ctx, info.APIURL, from, ended) })
	until := from.Add(time.Duration(op.N) * time.Millisecond)
	switch op.Mode {
	case "lists":
		w.flood(ctx, info.APIURL, until, "GET", "/v1/watches?limit=250", "/v1/events?limit=250")
	case "backfills":
		w.flood(ctx, info.APIURL, until, "POST", "/v1/watches/"+w.hostile.watch+"/backfill")
	case "tests":
		w.flood(ctx, info.APIURL, until, "POST", "/v1/endpoints/"+w.hostile.endpoint+"/test")
	case "connections":
		connect(info, until)
	case "keys":
		err = w.attackKeys(ctx, op)
	case "forge":
		err = w.attackForge(ctx, op)
	case "others":
		err = w.attackOthers(ctx, op)
	default:
		err = w.attackPaths(ctx, op)
	}
	close(ended)
	neighbour.Wait()
	if kib := residentKiB(info.PID); kib > residentMaxKiB {
		w.violate("HOSTILE", "after %s the program has had %d KiB in memory", op, kib)
	}
	return err
}

// readsMeanwhile reads as another account until an attack has ended. It must never be rejected
// because of the hostile tenant.
func (w *worker) readsMeanwhile(
	ctx context.Context, base string, from time.Time, ended <-chan struct{},
) {
	for {
		a := answer{sent: time.Now()}
		read := request{method: "GET", path: "/v1/endpoints?limit=1", key: w.accounts[0].key}
		err := w.try(ctx, base, read, nil, &a)
		if w.service.wasDown(from) || w.service.disturbed(from, time.Now()) || ctx.Err() != nil {
			return
		}
		if took := time.Since(a.sent); took > neighbourMax || a.status == http.StatusTooManyRequests {
			w.violate("HOSTILE", "another account's read took %s: %d %v", took, a.status, err)
		}
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// flood sends many concurrent requests until a time. The responses don't matter.
func (w *worker) flood(ctx context.Context, base string, until time.Time, method string,
	paths ...string) {
	var all sync.WaitGroup
	for n := range floodRequests {
		all.Go(func() {
			r := request{method: method, path: paths[n%len(paths)], key: w.hostile.key}
			var payload []byte
			if strings.HasSuffix(r.path, "/backfill") {
				payload = []byte(`{"from":2}`)
			}
			for time.Now().Before(until) && ctx.Err() == nil {
				_ = w.try(ctx, base, r, payload, &answer{})
			}
		})
	}
	all.Wait()
}

// connect opens connections to the public ports and keeps them until a time. On some of them it
// sends garbage.
func connect(info runInfo, until time.Time) {
	api, err := url.Parse(info.APIURL)
	if err != nil {
		return
	}
	var open []net.Conn
	for _, address := range append([]string{api.Host}, info.KafkaBrokers...) {
		for n := range floodConnections {
			c, err := net.DialTimeout("tcp", address, time.Second)
			if err != nil {
				break // at its limit, or down
			}
			open = append(open, c)
			if n%3 == 0 {
				_, _ = c.Write([]byte("\x00\x00\xff\xff\x9b\x1b garbage"))
			}
		}
	}
	time.Sleep(time.Until(until))
	for _, c := range open {
		_ = c.Close()
	}
}

// attackKeys tries to create stronger keys with a key that has an expiry and allowed networks.
func (w *worker) attackKeys(ctx context.Context, op Op) error {
	limits := map[string]any{
		"permissions": []string{"write"}, "allowedCidrs": []string{"127.0.0.0/8"},
		"expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}
	made, err := w.call(ctx, request{
		method: "POST", path: "/v1/api-keys", key: w.hostile.key, body: limits,
	})
	if err != nil {
		return err
	}
	var limited struct{ ID, Key string }
	if err := made.into(&limited); err != nil || limited.Key == "" {
		return fmt.Errorf("a limited key: %s: %w", made.body, err)
	}
	at := "/v1/api-keys/" + limited.ID
	later := time.Now().Add(1000 * time.Hour).UTC().Format(time.RFC3339)
	for _, r := range []request{
		{method: "POST", path: "/v1/api-keys", body: map[string]any{"permissions": []string{"write"}}},
		{method: "POST", path: "/v1/api-keys", body: map[string]any{"permissions": []string{"read"}}},
		{method: "POST", path: at + "/roll", body: map[string]any{"expiresAt": later}},
	} {
		r.key = limited.Key
		if err := w.refused(ctx, op, r, http.StatusForbidden); err != nil {
			return err
		}
	}
	gone, err := w.call(ctx, request{method: "DELETE", path: at, key: w.hostile.key})
	if err == nil {
		w.expect(op, gone, http.StatusNoContent, http.StatusNotFound)
	}
	return err
}

// attackOthers requests other accounts' objects, which must look as if they didn't exist.
func (w *worker) attackOthers(ctx context.Context, op Op) error {
	var paths []string
	for _, a := range w.accounts {
		for _, kind := range []string{"/v1/endpoints", "/v1/watches", "/v1/api-keys"} {
			got, err := w.call(ctx, request{method: "GET", path: kind + "?limit=2", key: a.key})
			var page struct{ Data []struct{ ID string } }
			if err := errors.Join(err, got.into(&page)); err != nil {
				return err
			}
			for _, one := range page.Data {
				paths = append(paths, kind+"/"+one.ID)
			}
		}
	}
	for _, path := range paths {
		for _, r := range []request{
			{method: "GET", path: path},
			{method: "DELETE", path: path},
		} {
			r.key = w.hostile.key
			if err := w.refused(ctx, op, r, http.StatusNotFound); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *worker) attackPaths(ctx context.Context, op Op) error {
	for _, path := range []string{
		"/v1/endpoints%2F" + w.hostile.endpoint, "/portal/endpoints/x%2Ftest",
		"/portal/%2e%2e/v1/watches",
		"//v1/endpoints", "/v1/watches/..%5cx",
	} {
		r := request{method: "GET", path: path, key: w.hostile.key}
		if err := w.refused(ctx, op, r, http.StatusNotFound); err != nil {
			return err
		}
	}
	return nil
}

// refused sends a request of the hostile tenant that must be rejected.
func (w *worker) refused(ctx context.Context, op Op, r request, status int) error {
	a, err := w.call(ctx, r)
	if err == nil && a.status != status {
		w.violate("HOSTILE", "%s: %s %s was answered %d, not %d: %s", op, r.method, r.path, a.status,
			status, a.body)
	}
	return err
}

// residentKiB returns the most memory that a process has had resident; 0: unknown.
func residentKiB(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "VmHWM:"); is {
			kib, _ = strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
		}
	}
	return kib
}
