package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// addressesFile has the addresses of earlier starts, by flag.
const addressesFile = "addresses.json"

// untilFree waits for the processes of a run that was just killed.
var untilFree = retry.Policy{
	First: 50 * time.Millisecond, Last: 500 * time.Millisecond, Within: 5 * time.Second,
	If: func(err error) bool { return errors.Is(err, syscall.EADDRINUSE) },
}

// settleAddresses decides where to listen. A folder keeps its addresses: webhooks, shops and
// dashboards have them in their settings. Only the first start of a demo replaces a default that
// is taken; any other start fails, and says who has it.
func (v *service) settleAddresses(ctx context.Context) error {
	recorded := map[string]string{}
	path := v.dir.Join(addressesFile)
	text, err := os.ReadFile(path)
	began := !errors.Is(err, fs.ErrNotExist)
	if began {
		if err == nil {
			err = json.Unmarshal(text, &recorded)
		}
		if err != nil {
			return fmt.Errorf("reading %s, which has the addresses of this folder: %w", path, err)
		}
	}
	v.addresses = v.flags.listens()
	for flag, address := range v.addresses {
		if v.flags.own.Changed(flag) || address == "" {
			continue
		}
		if earlier, known := recorded[flag]; known {
			address = earlier
		}
		if v.addresses[flag], err = v.settle(ctx, flag, address, began); err != nil {
			return err
		}
		recorded[flag] = v.addresses[flag]
	}
	text, err = json.MarshalIndent(recorded, "", "  ")
	if err != nil {
		return err
	}
	return runfile.WriteFile(path, append(text, '\n'))
}

// listens returns the addresses that the flags name and this start uses, by flag.
func (s *Flags) listens() map[string]string {
	all := map[string]string{
		"api-listen":               s.node.Set.API.Server.Listen,
		"kafka-listen":             s.kafkaListen,
		"stellar-listen":           s.stellarListen,
		"clickhouse-native-listen": s.clickhouseNative,
		"clickhouse-http-listen":   s.clickhouseHTTP,
		"metrics-listen":           s.node.MetricsListen,
		"receiver-listen":          s.receiverListen,
	}
	if s.noDemo {
		delete(all, "receiver-listen")
	}
	if !s.ownNetwork() {
		delete(all, "stellar-listen")
	}
	return all
}

// settle returns the address to listen on for a flag that was not given.
func (v *service) settle(
	ctx context.Context, flag, address string, began bool,
) (string, error) {
	try := func() error {
		l, err := net.Listen("tcp", address)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	err := try()
	if errors.Is(err, syscall.EADDRINUSE) && began {
		err = retry.Do(ctx, untilFree, try)
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return address, nil // another error is the listener's to report
	}
	if began || !v.flags.ownNetwork() {
		return "", fmt.Errorf("--%s: %s is taken by %s: stop that program, or name another address "+
			"with --%s, and give it to everything that uses this one", flag, address,
			subprocess.Listener(address), flag)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	free, err := subprocess.ListenFree(host)
	if err != nil {
		return "", fmt.Errorf("--%s: finding a free port: %w", flag, err)
	}
	defer free.Close()
	note := fmt.Sprintf("%s is taken: --%s is %s in this folder", address, flag, free.Addr())
	v.out.Say("%s", note)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.moved = append(v.moved, note)
	return free.Addr().String(), nil
}
