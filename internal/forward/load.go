package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stellar/go-stellar-sdk/txnbuild"
	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const (
	loadListen         = "127.0.0.1:8443"
	loadPayers         = 4   // in addition to the network's payer, which makes most payments
	loadWatchesPerShop = 5   // watches that share an endpoint
	loadAssetEvery     = 4   // every fourth payment is in the second asset
	loadPendingMax     = 512 // payments whose ledgers have not closed
	loadHeaderMax      = 10 * time.Second
	loadQuietMax       = 5 * time.Second // without a webhook, after the last payment
)

// Load makes traffic on a development network: payments to watched wallets, and a receiver that
// refuses some of the webhooks.
type Load struct {
	DataDir   string
	API       *client.Client
	Network   *devclient.Client
	Payer     string // secret key
	Payments  int
	PerSecond int
	Watches   int
	FailRatio float64 // of the webhooks, from 0 to 1
	Progress  func(done, total int64)

	Requests, Refused atomic.Int64 // webhooks that the receiver got, and refused on purpose
	shops             []string     // endpoints
	came              chan struct{}
}

func (l *Load) serve(w http.ResponseWriter, _ *http.Request) {
	n := float64(l.Requests.Add(1))
	if int64(n*l.FailRatio) > int64((n-1)*l.FailRatio) { // spread evenly
		l.Refused.Add(1)
		http.Error(w, "the shop's database is down", http.StatusServiceUnavailable)
	}
	select {
	case l.came <- struct{}{}:
	default:
	}
}

// Run makes the payments, and returns when no more webhooks arrive. It then disables the endpoints,
// so that no retry reaches a program that listens at the same port later.
func (l *Load) Run(ctx context.Context) (err error) {
	l.came = make(chan struct{}, 1)
	address, stop, err := l.listen()
	if err != nil {
		return err
	}
	defer stop()
	defer func() {
		for _, shop := range l.shops {
			_, failed := l.API.DisableEndpoint(context.WithoutCancel(ctx), shop)
			err = errors.Join(err, failed)
		}
	}()
	usd, err := l.Network.IssueAsset(ctx, l.Payer, "USDC", "1000000000")
	if err != nil {
		return err
	}
	wallets, _, err := l.accounts(ctx, l.Watches, usd.Asset)
	if err != nil {
		return err
	}
	_, payers, err := l.accounts(ctx, loadPayers)
	if err != nil {
		return err
	}
	if err := l.watch(ctx, address, wallets, usd.Issuer); err != nil {
		return err
	}
	if err := l.pay(ctx, wallets, payers, usd.Asset); err != nil {
		return err
	}
	for ctx.Err() == nil {
		select {
		case <-l.came:
		case <-time.After(loadQuietMax):
			return nil
		}
	}
	return ctx.Err()
}

// listen starts the receiver at a port that the service posts to.
func (l *Load) listen() (address string, stop func(), err error) {
	run, err := runfile.Read(l.DataDir)
	if err != nil {
		return "", nil, err
	}
	ca, err := keys.LoadOrCreateCA(filepath.Join(l.DataDir, "secrets"), run.CAFile, time.Now)
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", loadListen)
	if err != nil {
		listener, err = subprocess.ListenFree("127.0.0.1")
	}
	if err != nil {
		return "", nil, err
	}
	address = listener.Addr().String()
	if err := (&Receiver{Listen: address}).checkPort(run.EgressPorts); err != nil {
		listener.Close()
		return "", nil, fmt.Errorf("%s is taken: stop the program there: %w", loadListen, err)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(l.serve),
		TLSConfig:         &tls.Config{GetCertificate: ca.GetCertificate, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: loadHeaderMax,
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return address, func() { _ = server.Close() }, nil
}

// accounts creates accounts that can receive some assets, all at once.
func (l *Load) accounts(
	ctx context.Context, n int, assets ...string,
) (addresses, secrets []string, err error) {
	addresses, secrets = make([]string, n), make([]string, n)
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() (err error) {
			addresses[i], secrets[i], err = l.Network.CreateAccount(ctx, assets...)
			return err
		})
	}
	return addresses, secrets, group.Wait()
}

// watch creates the endpoints, and one watch for each wallet. It first waits for a ledger, so that
// no watch reports the funding.
func (l *Load) watch(ctx context.Context, address string, wallets []string, issuer string) error {
	err := l.Network.NextLedger(ctx)
	var shop client.Endpoint
	for i, wallet := range wallets {
		if i%loadWatchesPerShop == 0 && err == nil {
			name := fmt.Sprintf("shop-%d", i/loadWatchesPerShop+1)
			shop, err = l.API.CreateEndpoint(ctx,
				client.EndpointCreate{URL: "https://" + address + "/" + name, Description: name})
			if err == nil {
				l.shops = append(l.shops, shop.ID)
			}
		}
		if err == nil {
			_, err = l.API.CreateWatch(ctx, client.WatchCreate{
				WalletAddress: wallet,
				Label:         fmt.Sprintf("till %d", i+1),
				EndpointID:    shop.ID,
				Assets:        []client.Asset{{Code: "XLM"}, {Code: "USDC", Issuer: &issuer}},
			})
		}
	}
	return err
}

// pay makes the payments. Each of the payers makes half as many as the one before it.
func (l *Load) pay(ctx context.Context, wallets, payers []string, asset string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadPendingMax)
	var mu sync.Mutex
	var done int64
	l.Progress(0, int64(l.Payments))
	tick := time.NewTicker(time.Second / time.Duration(l.PerSecond))
	defer tick.Stop()
	for n := 0; n < l.Payments && ctx.Err() == nil; n++ {
		<-tick.C
		request := devclient.PayRequest{
			From:   l.Payer,
			To:     wallets[n%len(wallets)],
			Amount: fmt.Sprintf("%d.%02d", 1+n%3, n%100),
			Memo:   txnbuild.MemoText(fmt.Sprintf("order-%d", n+1)),
		}
		if (n+n/len(wallets))%loadAssetEvery == 0 { // each wallet receives both assets
			request.Asset = asset // only the network's payer has it
		} else if rank := bits.TrailingZeros(uint(n/loadAssetEvery + 1)); rank > 0 {
			request.From = payers[(rank-1)%len(payers)]
		}
		group.Go(func() error {
			_, err := l.Network.Pay(ctx, request)
			mu.Lock()
			defer mu.Unlock()
			done++
			l.Progress(done, int64(l.Payments))
			return err
		})
	}
	return group.Wait()
}
