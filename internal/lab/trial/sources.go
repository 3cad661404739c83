package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// follow runs the devnet in a separate program, and makes the program under test follow it with a
// quorum of two out of three sources. The last source lies.
func (w *world) follow(ctx context.Context) error {
	if w.network == nil {
		return nil
	}
	if err := w.network.start(ctx); err != nil {
		return err
	}
	target, err := url.Parse(w.network.info.Stellar.RPCURL)
	if err != nil {
		return err
	}
	var urls []string
	for n := range 3 {
		proxy := httputil.NewSingleHostReverseProxy(target)
		if n == 2 {
			proxy.ModifyResponse = (&liar{}).spoil
		}
		server := httptest.NewServer(proxy)
		w.receivers.stops = append(w.receivers.stops, func() { _ = server.Config.Close() })
		urls = append(urls, server.URL)
	}
	w.sources = []string{"--network", w.network.info.Stellar.Passphrase,
		"--stellar-rpc-url", strings.Join(urls, ","), "--ledger-quorum", "2"}
	w.service.args = append(w.service.args, "--broker-sync=false",
		"--ledger-poll-interval", "100ms", "--egress-allow", "127.0.0.0/8",
		"--egress-ca", filepath.Join(w.network.dir, "ca.pem"))
	w.service.args = append(w.service.args, w.sources...)
	return nil
}

// chainNumbers is the number of ledger numbers reserved for each chain of a network.
const chainNumbers = 200_000_000

// resetNetwork resets the network, as Stellar resets testnet: another chain starts with the same
// passphrase. The program must report this, and must not read anything until `ledger reset` starts
// the new chain. Endpoints and watches are kept. Payments on the new chain have events whose ids
// don't occur on the former chain.
func (w *world) resetNetwork(ctx context.Context) error {
	reset := append([]string{"ledger", "reset"}, w.sources...)
	if out, err := w.service.command(ctx, reset...); err == nil {
		w.violate("RESET", "a network that was not reset was: %s", out)
	}
	rpc, err := url.Parse(w.network.info.Stellar.RPCURL)
	if err != nil {
		return err
	}
	w.network.args = append(w.network.args, "--stellar-listen", rpc.Host)
	err = errors.Join(w.network.stop(), w.network.lose("devnet"), w.network.start(ctx),
		w.resetReported(ctx))
	if err != nil {
		return err
	}
	w.base.Store(chainNumbers)
	if err := w.payWatched(ctx, true); err != nil { // before the new chain is followed
		return err
	}
	err = w.eventually(ctx, "the new chain is followed", func() (string, error) {
		_, err := w.service.command(ctx, reset...)
		if err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	return errors.Join(err, w.payWatched(ctx, false))
}

// resetReported waits until the program isn't ready because of the reset, and checks that doctor
// reports it as well.
func (w *world) resetReported(ctx context.Context) error {
	const says = "the network was reset: ledger "
	err := w.eventually(ctx, "the reset of the network is reported", func() (string, error) {
		a, err := w.operatorsGet(ctx, "/readyz")
		if err != nil ||
			a.status == http.StatusServiceUnavailable && bytes.Contains(a.body, []byte(says)) {
			return "", err
		}
		return fmt.Sprintf("/readyz answers %d without %q", a.status, says), nil
	})
	if out, failed := w.service.command(ctx, "doctor", "--only", "ledgers"); failed == nil ||
		!bytes.Contains(out, []byte(says)) {
		w.violate("RESET", "doctor says (%v): %s", failed, out)
	}
	return err
}

// payWatched pays each watched wallet on the new chain, or creates it there.
func (w *world) payWatched(ctx context.Context, creates bool) error {
	payer := w.payers[0]
	if err := w.chain.fund(ctx, payer.Address()); err != nil {
		return err
	}
	paid := map[string]bool{}
	for _, k := range w.model.watches {
		if slot := w.slotOf(k.wallet); !paid[slot] {
			paid[slot] = true
			err := w.pay(ctx, Op{Lane: "reset", Wallet: slot,
				Pay: &Pay{Amount: draw.StroopsPerUnit, Creates: creates}})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// liar spoils responses of a source in changing ways.
type liar struct{ answers atomic.Int32 }

var (
	oldestField = regexp.MustCompile(`"oldestLedger":\d+`)
	latestField = regexp.MustCompile(`"latestLedger":\d+`)
	hashField   = regexp.MustCompile(`"hash":"\w{8}`)
)

func (l *liar) spoil(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	switch l.answers.Add(1) / 20 % 5 {
	case 0:
		body = oldestField.ReplaceAll(body, []byte(`"oldestLedger":99999`))
		body = latestField.ReplaceAll(body, []byte(`"latestLedger":99999`))
	case 1:
		body = latestField.ReplaceAll(body, []byte(`"latestLedger":3`))
	case 2:
		body = hashField.ReplaceAll(body, []byte(`"hash":"00000000`))
	case 3:
		r.StatusCode = http.StatusUnauthorized
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Content-Length")
	return err
}
