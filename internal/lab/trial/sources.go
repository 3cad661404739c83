package trial

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// follow runs the development network in a program of its own, and has the program under trial
// follow it by a quorum of two of three sources. The last of them lies.
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
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
		w.receivers.stops = append(w.receivers.stops, func() { _ = server.Close() })
		go func() { _ = server.Serve(listener) }()
		urls = append(urls, "http://"+listener.Addr().String())
	}
	w.service.args = append(w.service.args, "--network", w.network.info.Stellar.Passphrase,
		"--stellar-rpc-url", strings.Join(urls, ","), "--ledger-quorum", "2", "--broker-sync=false",
		"--ledger-poll-interval", "100ms", "--egress-allow", "127.0.0.0/8",
		"--egress-ca", filepath.Join(w.network.dir, "ca.pem"))
	return nil
}

// liar spoils answers of a source, each in another way than the one before.
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
