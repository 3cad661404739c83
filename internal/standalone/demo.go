package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// DemoEndpoint is the description of the demo's endpoint.
const DemoEndpoint = "demo receiver"

// demo is the demo's state, which is stored between runs. It is a client like any other: it
// uses the API, the development network and HTTPS.
type demo struct {
	v      *service
	client *devclient.Client
	state  demoState
	secret atomic.Pointer[string]
}

type demoState struct {
	WalletSeed  string `json:"walletSeed"`
	EndpointURL string `json:"endpointUrl"`
	EndpointID  string `json:"endpointId"`
	Secret      string `json:"secret"`
	WatchID     string `json:"watchId"`
	Payments    int    `json:"payments"`
}

// startDemoReceiver starts what receives the demo's webhooks. It runs before the egress
// client is made, which must permit its port: a port that was only chosen could be taken by
// another process before the receiver binds it.
func (v *service) startDemoReceiver() error {
	if v.flags.noDemo {
		return nil
	}
	d := &demo{v: v}
	if err := d.load(); err != nil {
		return err
	}
	port, err := d.startReceiver()
	if err != nil {
		return err
	}
	if err := v.flags.node.PermitPort(port); err != nil {
		return err
	}
	v.demo = d
	return nil
}

func (v *service) startDemo(ctx context.Context) error {
	d := v.demo
	if d == nil {
		return nil
	}
	client, err := devclient.New(v.file.Stellar.RPCURL, v.file.Stellar.FriendbotURL)
	if err != nil {
		return err
	}
	v.OnStop(func() { _ = client.Close() })
	d.client = client
	if err := d.prepare(ctx); err != nil {
		return fmt.Errorf("preparing the demo: %w", err)
	}
	v.Go("demo", d.pay)
	return nil
}

func (d *demo) path() string { return d.v.dir.Join("secrets", "demo.json") }

func (d *demo) load() error {
	data, err := os.ReadFile(d.path())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &d.state); err != nil {
		return fmt.Errorf("reading %s: %w", d.path(), err)
	}
	d.secret.Store(&d.state.Secret)
	return nil
}

func (d *demo) save() error {
	data, err := json.MarshalIndent(d.state, "", "  ")
	if err != nil {
		return err
	}
	return runfile.WriteFile(d.path(), data)
}

// startReceiver returns the port that the receiver listens on.
func (d *demo) startReceiver() (port string, err error) {
	r, err := receiver.New(receiver.Config{
		Listen:         d.v.addresses["receiver-listen"],
		GetCertificate: d.v.ca.GetCertificate,
		Secrets: func() []domain.Secret {
			if s := d.secret.Load(); s != nil {
				return []domain.Secret{domain.Secret(*s)}
			}
			return nil
		},
		OnWebhook: d.v.out.webhook,
		Logger:    d.v.Logger,
	})
	if err != nil {
		return "", err
	}
	if err := r.Start(); err != nil {
		return "", fmt.Errorf("--receiver-listen: %w", err)
	}
	// The receiver stops last: attempts that finish while everything else stops still reach
	// it.
	d.v.OnStopLast(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = r.Close(ctx)
	})
	d.v.file.Receiver = &runfile.Receiver{URL: r.URL()}
	_, port, err = net.SplitHostPort(r.Addr().String())
	return port, err
}

// untilAnswered repeats a request that the service cannot answer yet.
var untilAnswered = retry.Policy{First: 200 * time.Millisecond, If: client.MayPass}

// prepare creates the objects that the demo needs and does not have yet. When the receiver's
// address has changed, the endpoint follows it.
func (d *demo) prepare(ctx context.Context) error {
	url := d.v.file.Receiver.URL
	if d.state.EndpointURL == url && d.state.WatchID != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	api, err := client.New(d.v.file.APIURL, d.v.file.APIKey, nil)
	if err != nil {
		return err
	}
	if d.state.WatchID != "" {
		moved, err := d.moveEndpoint(ctx, api, url)
		if moved || err != nil {
			return err
		}
		d.state.WalletSeed = "" // it was deleted: its watch must not report to nobody
	}
	if d.state.WalletSeed == "" {
		_, seed, err := d.client.CreateAccount(ctx, d.v.ids.DemoAsset())
		if err != nil {
			return err
		}
		d.state.WalletSeed, d.state.EndpointURL, d.state.WatchID = seed, "", ""
		if err := d.save(); err != nil {
			return err
		}
	}
	wallet, err := keypair.ParseFull(d.state.WalletSeed)
	if err != nil {
		return err
	}
	// A start that was interrupted here repeats the same request.
	key := "demo " + url + " " + wallet.Address()
	described := client.EndpointCreate{URL: url, Description: DemoEndpoint}
	endpoint, err := retry.Value(ctx, untilAnswered, func() (client.Endpoint, error) {
		return api.CreateEndpoint(ctx, described, client.IdempotencyKey(key))
	})
	if err != nil {
		return fmt.Errorf("create the endpoint: %w", err)
	}
	d.secret.Store(&endpoint.Secret)
	watched := client.WatchCreate{
		WalletAddress: wallet.Address(),
		Label:         "demo",
		EndpointID:    endpoint.ID,
		Assets:        []client.Asset{{Code: "XLM"}},
	}
	watch, err := retry.Value(ctx, untilAnswered, func() (client.Watch, error) {
		return api.CreateWatch(ctx, watched, client.IdempotencyKey(key))
	})
	if err != nil {
		return fmt.Errorf("create the watch: %w", err)
	}
	d.state.EndpointURL, d.state.EndpointID = url, endpoint.ID
	d.state.Secret, d.state.WatchID = endpoint.Secret, watch.ID
	d.v.out.Say("demo       endpoint %s and watch %s on wallet %s",
		endpoint.ID, watch.ID, short(wallet.Address()))
	return d.save()
}

// moveEndpoint gives the demo's endpoint another URL, unless the service refuses.
func (d *demo) moveEndpoint(
	ctx context.Context, api *client.Client, url string,
) (moved bool, err error) {
	_, err = retry.Value(ctx, untilAnswered, func() (client.Endpoint, error) {
		return api.UpdateEndpoint(ctx, d.state.EndpointID, client.Patch{"url": url})
	})
	if _, refused := errors.AsType[*client.Problem](err); refused {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("move the endpoint: %w", err)
	}
	d.state.EndpointURL = url
	return true, d.save()
}

// pay pays the demo's wallet at once and then periodically.
func (d *demo) pay(ctx context.Context) error {
	wallet, err := keypair.ParseFull(d.state.WalletSeed)
	if err != nil {
		return err
	}
	tick := time.NewTicker(d.v.flags.demoInterval)
	defer tick.Stop()
	for {
		// Counted before it is made: after a stop in between, another order is paid, and
		// none twice.
		d.state.Payments++
		n := d.state.Payments
		if err := d.save(); err != nil {
			return err
		}
		_, err := d.client.Pay(ctx, devclient.PayRequest{
			From:   d.v.ids.PayerSeed,
			To:     wallet.Address(),
			Amount: strconv.Itoa(n%90+10) + ".5",
			Memo:   txnbuild.MemoText("order-" + strconv.Itoa(n)),
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.v.Logger.Warn("the demo could not pay", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
