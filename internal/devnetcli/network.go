package devnetcli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// nextLedgerMax bounds the wait for one more ledger.
const nextLedgerMax = 3 * time.Second

// Network is the development network of a running service.
type Network struct {
	*devclient.Client
	dir string
	run runfile.File
}

// Open finds the network of a data folder's service. The caller closes it.
func Open(dir string) (*Network, error) {
	run, err := runfile.Read(dir)
	if err != nil {
		return nil, err
	}
	if run.Stellar.FriendbotURL == "" {
		return nil, fmt.Errorf("the service of %s follows %q, and has no development network: "+
			"pay with a wallet of yours", dir, run.Stellar.NetworkPassphrase)
	}
	c, err := devclient.New(run.Stellar.RPCURL, run.Stellar.FriendbotURL)
	if err != nil {
		return nil, err
	}
	return &Network{c, dir, run}, nil
}

// PayerSeed is the secret key of the payer.
func (n *Network) PayerSeed() (string, error) {
	ids, err := devnet.LoadOrCreateIdentities(runfile.IdentitiesFile(n.dir))
	return ids.PayerSeed, err
}

// NextLedger waits until one more ledger is closed: by then the service has read
// the one that funded a wallet, and a watch that is made now does not report
// the funding.
func (n *Network) NextLedger(ctx context.Context) error {
	source, err := rpc.New(rpc.Config{
		URL:          n.run.Stellar.RPCURL,
		Passphrase:   n.run.Stellar.NetworkPassphrase,
		PollInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nextLedgerMax)
	defer cancel()
	latest, err := source.Latest(ctx)
	if err == nil {
		_, err = source.Next(ctx, latest+1)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // ledgers close slowly here: then there is time enough
	}
	return err
}
