package devnet

import (
	"context"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/devnet/devclient"
)

func TestSmoke(t *testing.T) {
	id, err := NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(Config{Dir: t.TempDir(), Identities: id, Listen: "127.0.0.1:0", CloseInterval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	go n.Run(context.Background())
	c, err := devclient.New(n.RPCURL(), n.FriendbotURL())
	if err != nil {
		t.Fatal(err)
	}
	a, s, err := c.CreateAccount(context.Background(), id.DemoAsset())
	t.Log(a, s, err)
	p, err := c.Pay(context.Background(), devclient.PayRequest{From: id.PayerSeed, To: a, Amount: "12.5", Asset: id.DemoAsset()})
	t.Log(p, err)
	p, err = c.Pay(context.Background(), devclient.PayRequest{From: id.PayerSeed, To: a, Amount: "12.5", Asset: "EUR:" + id.IssuerAddress()})
	t.Log(p, err)
}
