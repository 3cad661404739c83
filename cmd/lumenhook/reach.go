package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/kafkaflags"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/commands"
)

// reach says how a subcommand finds a running service: through the run.json of
// its data folder, or by addresses, which win.
type reach struct {
	dataDir string
	apiURL  string
	apiKey  string
	caFile  string
	kafka   kafkaflags.Flags
	cli.Output
}

// register adds the flags to a command and those below it.
func (r *reach) register(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&r.dataDir, "data-dir", ".lumenhook", "data folder of the running service")
	f.StringVar(&r.apiURL, "api-url", "", "address of the API, instead of the data folder's")
	f.StringVar(&r.apiKey, "api-key", "", "API key, instead of the data folder's (better given as LUMENHOOK_API_KEY)")
	f.StringVar(&r.caFile, "ca-file", "", "PEM file of further authorities that the API's certificate may be of; the data folder's when it is not given")
	r.Output.Register(f)
}

// registerBrokers adds the flags of what is done by commands, without the API.
func (r *reach) registerBrokers(c *cobra.Command) {
	r.kafka.Register(c.PersistentFlags())
}

// client makes a client of the API.
func (r *reach) client() (*client.Client, error) {
	url, key, caFile := r.apiURL, r.apiKey, r.caFile
	if url == "" || key == "" {
		run, err := runfile.Read(r.dataDir)
		switch {
		case url != "" && (err != nil || run.APIURL != strings.TrimSuffix(url, "/")):
			// The folder's key is for the folder's service: no other is shown it.
			return nil, cli.Usage(fmt.Errorf("--api-key must be given with --api-url %s, best as the variable %s", url, cli.Variable("api-key")))
		case err != nil:
			return nil, fmt.Errorf("%w; or give --api-url and --api-key", err)
		}
		url, key, caFile = cmp.Or(url, run.APIURL), cmp.Or(key, run.APIKey), cmp.Or(caFile, run.CAFile)
	}
	transport, err := trusting(caFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file %q: %w", caFile, err)
	}
	c, err := client.New(url, key, &http.Client{Transport: transport, Timeout: askMax})
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--api-url %q: must be a URL such as http://127.0.0.1:8080", url))
	}
	return c, nil
}

// askMax bounds one exchange: a test waits for its attempt.
const askMax = 45 * time.Second

// trusting reaches servers whose certificate is of the system's authorities, or of
// those in a file.
func trusting(caFile string) (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	pem, err := readAuthorities(caFile)
	if err != nil || pem == nil {
		return transport, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(pem)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// submit gives the engine a command and returns what it is answered with.
// Whether a command arrived may not be known; asked again, it is the same one.
func (r *reach) submit(ctx context.Context, body domain.CommandBody, accountID string) (domain.Answer, error) {
	cluster, err := r.kafka.Cluster("lumenhook-cli", slog.New(slog.DiscardHandler))
	if err != nil {
		return domain.Answer{}, err
	}
	if len(cluster.Brokers) == 0 {
		run, err := runfile.Read(r.dataDir)
		if err != nil {
			return domain.Answer{}, fmt.Errorf("%w; or give --kafka-brokers", err)
		}
		cluster.Brokers, cluster.SASL, cluster.TLS = run.KafkaBrokers, run.Kafka.SASL(), streams.TLS{}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := commands.Open(ctx, commands.Config{Cluster: cluster, Logger: cluster.Logger})
	if err != nil {
		return domain.Answer{}, fmt.Errorf("reaching the brokers %s: %w", strings.Join(cluster.Brokers, ", "), err)
	}
	running := make(chan error, 1)
	go func() { running <- c.Run(ctx) }()
	defer func() { c.Close(); <-running }()

	return submitted(ctx, c, body, accountID)
}

// submitted gives a command through a client that is open.
func submitted(ctx context.Context, c *commands.Client, body domain.CommandBody, accountID string) (domain.Answer, error) {
	command := domain.Command{ID: domain.NewID(domain.CommandPrefix, randomID()), AccountID: accountID, IssuedAtMillis: time.Now().UnixMilli(), Body: body}
	for {
		result, err := c.Submit(ctx, command)
		var unconfirmed commands.ErrNotConfirmed
		switch {
		case err == nil && result.Answer.Rejection != nil:
			return result.Answer, errors.New(result.Answer.Rejection.Detail)
		case err == nil:
			return result.Answer, nil
		case !errors.As(err, &unconfirmed) || ctx.Err() != nil:
			return domain.Answer{}, fmt.Errorf("no engine has answered: is one running on these brokers? %w", err)
		}
	}
}

// admitted waits, for a few seconds, until the API knows a new key. Without an
// API to ask it returns at once: nodes know the key within 5 s.
func (r *reach) admitted(ctx context.Context, key string) {
	asking := *r
	asking.apiKey = key
	c, err := asking.client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.ListKeys(ctx, client.Page{Limit: 1})
		var refused *client.Problem
		if !errors.As(err, &refused) || refused.Status != 401 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// asking makes the command of one operation of the API, which prints what it
// answers: JSON, or as a person reads it.
func asking[T any](r *reach, use, short string, arguments cobra.PositionalArgs, ask func(context.Context, *client.Client, []string) (T, error), show func(io.Writer, T)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := r.client()
			if err != nil {
				return err
			}
			answer, err := ask(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return r.Print(cmd.OutOrStdout(), answer, func(w io.Writer) { show(w, answer) })
		},
	}
}

func done(what string) func(io.Writer, struct{}) {
	return func(w io.Writer, _ struct{}) { cli.Row(w, what) }
}
