package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/pki"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// receiverCommand is `lumenhook devnet receiver`.
type receiverCommand struct {
	dataDir    *string
	listen     string
	secretFile string
	asJSON     bool
}

func newDevnetReceiver(dir *string) *cobra.Command {
	r := receiverCommand{dataDir: dir}
	c := &cobra.Command{
		Use:   "receiver --secret-file FILE",
		Short: "Receive webhooks on this machine, check their signatures and print them",
		Long: `Listens with a certificate of the run's own authority, does with every webhook
what a receiver must (its signature, then whether its id was seen before, then 200),
and prints it. Ctrl-C ends it.

The file of secrets is read at each webhook, so that the endpoint may be made later:

  lumenhook devnet receiver --secret-file hook.secret
  lumenhook endpoints create --url https://127.0.0.1:8443/webhooks --secret-out hook.secret`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&r.listen, "listen", "127.0.0.1:8443", "address to listen on")
	f.StringVar(&r.secretFile, "secret-file", "", "file of the endpoint's signing secrets, one a line")
	f.BoolVar(&r.asJSON, "json", false, "print each webhook as a line of JSON")
	_ = c.MarkFlagRequired("secret-file")
	return c
}

func (r *receiverCommand) run(ctx context.Context, out io.Writer) error {
	if err := cli.CheckAddress(r.listen); err != nil {
		return cli.Usage(fmt.Errorf("--listen %q: %w", r.listen, err))
	}
	run, err := runfile.Read(*r.dataDir)
	if err != nil {
		return err
	}
	if err := r.checkPort(run.EgressPorts); err != nil {
		return err
	}
	ca, err := pki.LoadOrCreateCA(filepath.Join(*r.dataDir, "secrets"), run.CAFile, time.Now)
	if err != nil {
		return err
	}
	printed := &webhookPrinter{out: out, asJSON: r.asJSON}
	server, err := receiver.New(receiver.Config{
		Listen: r.listen, GetCertificate: ca.GetCertificate(pki.DefaultHosts()...), Secrets: r.secrets, OnWebhook: printed.print,
	})
	if err != nil {
		return err
	}
	switch err := server.Start(); {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--listen %s: another program listens there: stop it, or name another port that the service posts to (%s)", r.listen, run.EgressPorts)
	case err != nil:
		return fmt.Errorf("--listen: %w", err)
	}
	fmt.Fprintf(out, "listening at %s\n", server.URL())
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(server.Close(ending), printed.err)
}

// checkPort refuses a port that the service would not post to. It is not known of a
// free one (port 0) before it is taken.
func (r *receiverCommand) checkPort(allowed string) error {
	_, port, _ := net.SplitHostPort(r.listen)
	ports, err := egress.ParsePorts(allowed)
	if n, _ := strconv.Atoi(port); err == nil && n != 0 && !ports.Contains(uint16(n)) {
		return cli.Usage(fmt.Errorf("--listen %s: the service posts to the ports %s only: choose one of them, or start it with --egress-ports %s,%s", r.listen, allowed, allowed, port))
	}
	return nil
}

// secrets are those in the file now; none while it is not there.
func (r *receiverCommand) secrets() []domain.Secret {
	secrets, err := readSecretFile(r.secretFile, nil)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "--secret-file %s: %v\n", r.secretFile, err)
	}
	return secrets
}

// webhookPrinter shows webhooks, one at a time.
type webhookPrinter struct {
	out    io.Writer
	asJSON bool
	err    error
}

// print keeps the first error of the output: the webhook was answered all the same.
func (p *webhookPrinter) print(w receiver.Webhook) {
	var err error
	if p.asJSON {
		line := map[string]any{"id": w.ID, "type": w.Type, "verified": w.Verified, "duplicate": w.Duplicate, "reason": w.Reason, "body": string(w.Body)}
		err = json.NewEncoder(p.out).Encode(line)
	} else {
		_, err = fmt.Fprintf(p.out, "%s\n%s\n", w.Text(), cli.OneLine(string(w.Body)))
	}
	if p.err == nil {
		p.err = err
	}
}
