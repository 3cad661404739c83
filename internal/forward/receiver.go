package forward

import (
	"bytes"
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
	"unicode/utf8"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// closeMax bounds how long to wait for open requests when stopping.
const closeMax = 5 * time.Second

// Receiver receives webhooks on this machine, checks them and prints them.
type Receiver struct {
	DataDir    string
	Listen     string // host:port
	SecretFile string // read for each webhook
	JSON       bool   // print one line of JSON per webhook
}

// Run receives webhooks until ctx is done. It prints its address on out, or on tell if the output
// is JSON.
func (r *Receiver) Run(ctx context.Context, out, printf io.Writer) error {
	if err := cli.CheckAddress(r.Listen); err != nil {
		return cli.Usage(fmt.Errorf("--listen %q: %w", r.Listen, err))
	}
	run, err := runfile.Read(r.DataDir)
	if err != nil {
		return err
	}
	if err := r.checkPort(run.EgressPorts); err != nil {
		return err
	}
	ca, err := keys.LoadOrCreateCA(filepath.Join(r.DataDir, "secrets"), run.CAFile, time.Now)
	if err != nil {
		return err
	}
	printed := &webhookPrinter{out: out, asJSON: r.JSON}
	server, err := receiver.New(receiver.Config{
		Listen:         r.Listen,
		GetCertificate: ca.GetCertificate,
		Secrets:        r.secrets,
		OnWebhook:      printed.print,
	})
	if err != nil {
		return err
	}
	switch err := server.Start(); {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("--listen %s: another program is listening there; stop it, "+
			"or use another port that the service posts to (%s)", r.Listen, run.EgressPorts)
	case err != nil:
		return fmt.Errorf("--listen: %w", err)
	}
	if !r.JSON {
		printf = out
	}
	fmt.Fprintf(printf, "listening at %s\n", server.URL())
	<-ctx.Done()
	ending, cancel := context.WithTimeout(context.Background(), closeMax)
	defer cancel()
	return errors.Join(server.Close(ending), printed.err)
}

// checkPort rejects a port that the service does not post to. Port 0 is replaced with a free port
// later.
func (r *Receiver) checkPort(allowed string) error {
	_, port, _ := net.SplitHostPort(r.Listen)
	ports, err := egress.ParsePorts(allowed)
	if n, _ := strconv.Atoi(port); err == nil && n != 0 && !ports.Contains(uint16(n)) {
		return cli.Usage(fmt.Errorf("--listen %s: the service only posts to the ports %s; "+
			"use one of them, or start the service with --egress-ports %s,%s",
			r.Listen, allowed, allowed, port))
	}
	return nil
}

// secrets reads the secrets from the file. It returns none if the file does not exist.
func (r *Receiver) secrets() []domain.Secret {
	secrets, err := config.ReadSecrets(r.SecretFile, nil)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "--secret-file %s: %v\n", r.SecretFile, err)
	}
	return secrets
}

type webhookPrinter struct {
	out    io.Writer
	asJSON bool
	err    error
}

// print keeps the first output error. The webhook has been answered by then.
func (p *webhookPrinter) print(w receiver.Webhook) {
	var err error
	if p.asJSON {
		err = writeReceived(p.out, w)
	} else {
		_, err = fmt.Fprintf(p.out, "%s\nWebhook-Timestamp: %s\nWebhook-Signature: %s\n%s\n",
			w.Text(), cli.OneLine(w.Timestamp), cli.OneLine(w.Signature), cli.OneLine(string(w.Body)))
	}
	if p.err == nil {
		p.err = err
	}
}

// Received is a webhook as a line of JSON: the receiver's verdict, and everything needed to check
// the signature.
type Received struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Verified  bool   `json:"verified"`
	Duplicate bool   `json:"duplicate"`
	Reason    string `json:"reason"`

	Timestamp string `json:"timestamp"`
	Signature string `json:"signature"`
	Body      string `json:"body"`
	// BodyBase64 is the body if it is not UTF-8, because a JSON string would change it.
	BodyBase64 []byte `json:"bodyBase64,omitempty"`
}

func writeReceived(out io.Writer, w receiver.Webhook) error {
	r := Received{
		ID:        w.ID,
		Type:      w.Type,
		Verified:  w.Verified,
		Duplicate: w.Duplicate,
		Reason:    w.Reason,
		Timestamp: w.Timestamp,
		Signature: w.Signature,
		Body:      string(w.Body),
	}
	if !utf8.Valid(w.Body) {
		r.Body, r.BodyBase64 = "", w.Body
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

var errNotReceived = errors.New("must be one line of `lumenhook devnet receiver " +
	"--json` or `events pull`: " +
	"`tail -n 1 FILE` prints the last line")

// ReadReceived decodes one line.
func ReadReceived(line []byte) (r Received, err error) {
	if bytes.Count(bytes.TrimSpace(line), []byte("\n")) > 0 || json.Unmarshal(line, &r) != nil {
		return r, errNotReceived
	}
	if r.Signature == "" && len(r.RawBody()) == 0 { // other JSON
		return r, errNotReceived
	}
	return r, nil
}

// RawBody returns the body exactly as it was received.
func (r Received) RawBody() []byte {
	if len(r.BodyBase64) > 0 {
		return r.BodyBase64
	}
	return []byte(r.Body)
}
