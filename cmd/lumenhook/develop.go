package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/forward"
	"github.com/lumenhook/lumenhook/internal/standalone"
)

// listenPage is how many events are pulled at once: few, because each is signed with the secrets
// that are valid when it is pulled.
const listenPage = 25

// listening is `lumenhook listen`.
type listening struct {
	apiFlags
	secrets              config.Secrets
	endpointID, url      string
	since                time.Time
	fail, types, headers []string
}

func newListen() *cobra.Command {
	var l listening
	c := newCommand("listen", l.run)
	l.register(c)
	f := c.Flags()
	l.secrets.Register(f)
	f.StringVar(&l.endpointID, "endpoint", "", "id of the endpoint; optional if there is only one")
	f.StringVar(&l.url, "forward-to", "",
		"URL to post events to, on this machine or elsewhere; if empty, events are only printed")
	cli.InstantVar(f, &l.since, "since",
		"start with events created at or after this time: a timestamp, or how long ago (default now)")
	f.StringSliceVar(&l.fail, "fail", nil,
		"how each event's first attempts fail, in order: a status, timeout or reset; at most 8")
	f.StringSliceVar(&l.types, "events", nil, "only events of these types, such as payment.received")
	cli.Offer(f, "fail", "503", "timeout", "reset")
	cli.Offer(f, "events", apicli.EventTypes()...)
	f.StringArrayVar(&l.headers, "header", nil,
		"additional header to send with each request (Name: value); can be repeated")
	return c
}

func (l *listening) run(cmd *cobra.Command, _ []string) error {
	report := &forward.Report{
		Out:  cmd.OutOrStdout(),
		Tell: cmd.ErrOrStderr(),
		JSON: l.JSON,
		Now:  time.Now,
	}
	forwarder, from, err := l.flags(report)
	if err != nil {
		return err
	}
	c, err := l.API()
	if err != nil {
		return err
	}
	if l.secrets.Given() {
		if forwarder.Secrets, err = l.secrets.Read(cmd.InOrStdin()); err != nil {
			return cli.Usage(err)
		}
	}
	ctx := cmd.Context()
	endpoint, err := theEndpoint(ctx, c, l.endpointID)
	if err != nil {
		return err
	}
	l.announce(report, endpoint)
	listener := client.Listener{
		Client:     c,
		EndpointID: endpoint.ID,
		From:       client.Pull{Since: from, Limit: listenPage},
		Handle:     forwarder.Handle,
		Missing:    apicli.TellMissing(report.Tell),
		Away:       apicli.TellAway(report.Tell),
		Back:       apicli.TellBack(report.Tell),
	}
	err = listener.Run(ctx)
	if err == nil && l.url != "" {
		fmt.Fprintf(report.Tell, "events accepted: %d, not accepted: %d\n", report.Events, report.Refused)
	}
	return err
}

// flags makes of the flags how events are forwarded, and since when.
func (l *listening) flags(report *forward.Report) (*forward.Forwarder, time.Time, error) {
	from := l.since
	if from.IsZero() {
		from = time.Now()
	}
	sinceErr := cli.CheckPast("since", from)
	forwarder := forward.New(l.url, report)
	forwarder.Types = l.types
	typesErr := apicli.CheckTypes("events", l.types)
	var failErr, urlErr, fieldErr error
	if forwarder.Faults, failErr = forward.ParseFaults(l.fail); failErr != nil {
		failErr = cli.Usage(fmt.Errorf("--fail: %w", failErr))
	}
	if l.url != "" {
		if urlErr = forward.CheckURL(l.url); urlErr != nil {
			urlErr = cli.Usage(fmt.Errorf("--forward-to %w", urlErr))
		}
	} else if len(l.fail)+len(l.headers) > 0 {
		urlErr = cli.Usage(errors.New("--fail and --header are for events that are posted: give " +
			"--forward-to"))
	}
	if l.Field != "" {
		fieldErr = cli.Usage(errors.New("--field: events are shown as whole lines: leave it out"))
	}
	var headerErr error
	forwarder.Header, headerErr = headersOf(l.headers)
	return forwarder, from, cli.Faults([]error{
		sinceErr, typesErr, failErr, urlErr, fieldErr, headerErr,
	})
}

func headersOf(flags []string) (http.Header, error) {
	headers := http.Header{}
	for _, text := range flags {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, cli.Usage(fmt.Errorf("--header %q: must be Name: value", text))
		}
		headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return headers, nil
}

// endpointsNamed is how many endpoints a refusal names, of which one must be chosen.
const endpointsNamed = 10

// theEndpoint returns the named endpoint, or the only one apart from the demo's.
func theEndpoint(ctx context.Context, c *client.Client, id string) (client.Endpoint, error) {
	if id != "" {
		return c.GetEndpoint(ctx, id)
	}
	list, err := c.ListEndpoints(ctx, client.EndpointFilter{}, client.Page{Limit: endpointsNamed})
	switch {
	case err != nil:
		return client.Endpoint{}, err
	case len(list.Data) == 0:
		return client.Endpoint{}, errors.New("there is no endpoint: `lumenhook endpoints create --url " +
			"https://…` makes one; its address need not be reached")
	case len(list.Data) == 1:
		return list.Data[0], nil
	}
	ids, own := []string{}, []client.Endpoint{}
	for _, e := range list.Data {
		ids = append(ids, e.ID)
		if e.Description != standalone.DemoEndpoint {
			own = append(own, e)
		}
	}
	if len(own) == 1 && list.NextCursor == nil {
		return own[0], nil
	}
	return client.Endpoint{}, fmt.Errorf("--endpoint: there are several endpoints: name one of %s "+
		"(`lumenhook endpoints list` shows them)", strings.Join(ids, ", "))
}

// announce says what is about to happen.
func (l *listening) announce(report *forward.Report, e client.Endpoint) {
	to := "showing them"
	if l.url != "" {
		to = "posting them to " + l.url
	}
	fmt.Fprintf(report.Tell, "listening for the events of %s, %s; press Ctrl-C to stop\n", e.ID, to)
	if e.Status == "active" && l.url != "" {
		fmt.Fprintf(report.Tell, "the service posts them to %s too, until you disable the endpoint\n",
			e.URL)
	}
}

const (
	// triggersMax bounds the samples of one call.
	triggersMax = 1000
	// staleBy is how old the timestamp of a stale sample is: receivers are to refuse more than five
	// minutes.
	staleBy = 10 * time.Minute
)

// trigger is `lumenhook trigger`.
type trigger struct {
	cli.Output
	url                  string
	secrets              config.Secrets
	sample               forward.Sample
	count, repeat        int
	stale, failSignature bool
}

func newTrigger() *cobra.Command {
	var t trigger
	c := newCommand("trigger", t.run)
	f := c.Flags()
	t.Output.Register(f)
	t.secrets.Register(f)
	t.sample.Register(f)
	f.StringVar(&t.url, "to", "", "URL of the receiver")
	f.IntVar(&t.count, "count", 1, "number of samples to send, each as a separate event")
	f.IntVar(&t.repeat, "repeat", 0, "number of additional times to post each event")
	f.BoolVar(&t.stale, "stale", false, "sign with an outdated timestamp")
	f.BoolVar(&t.failSignature, "fail-signature", false, "sign with the wrong secret")
	cli.Require(c, "to")
	return c
}

// triggered are the types of samples.
var triggered = []domain.EventType{
	domain.PaymentReceived, domain.PaymentRejected, domain.TestPing,
}

func (t *trigger) run(cmd *cobra.Command, args []string) error {
	kind := domain.PaymentReceived
	if len(args) > 0 {
		kind = domain.EventType(args[0])
	}
	if !slices.Contains(triggered, kind) {
		return cli.Usage(fmt.Errorf("unknown type %q: use payment.received, "+
			"payment.rejected or test.ping", kind))
	}
	if t.count < 1 || t.count > triggersMax || t.repeat < 0 || t.repeat > triggersMax {
		return cli.Usage(fmt.Errorf("--count %d --repeat %d: must be from 1 and 0 to %d", t.count,
			t.repeat, triggersMax))
	}
	if err := forward.CheckURL(t.url); err != nil {
		return cli.Usage(fmt.Errorf("--to %w", err))
	}
	if t.Field != "" {
		return cli.Usage(errors.New("--field: posts are shown as whole lines: leave it out"))
	}
	secrets, err := t.secrets.Read(cmd.InOrStdin())
	if err != nil {
		return cli.Usage(err)
	}
	if t.failSignature {
		secrets = []domain.Secret{domain.SecretPrefix + "of-nobody"}
	}
	report := &forward.Report{
		Out:     cmd.OutOrStdout(),
		Tell:    cmd.ErrOrStderr(),
		JSON:    t.JSON,
		Refusal: t.stale || t.failSignature,
		Now:     time.Now,
	}
	forwarder := forward.New(t.url, report)
	forwarder.AtOnce = true
	for n := range t.count {
		now := time.Now()
		event, err := t.made(kind, now)
		if err != nil {
			return cli.Usage(err)
		}
		for range t.repeat + 1 {
			err := forwarder.Handle(cmd.Context(), t.signed(secrets, event, int64(n)+1))
			if err != nil {
				return err
			}
		}
	}
	return report.Fault()
}

// made makes the event.
func (t *trigger) made(kind domain.EventType, now time.Time) (domain.Event, error) {
	id := config.NewID(domain.EventPrefix)
	if kind == domain.TestPing {
		e := domain.Endpoint{ID: domain.EndpointPrefix + zeros}
		e.URL = t.url
		return domain.NewTestEvent(e, id, now.UnixMilli()), nil
	}
	match, err := t.sample.Match(kind, now)
	if err != nil {
		return domain.Event{}, err
	}
	match.EventID = id
	return domain.NewPaymentEvent(match, now.UnixMilli()), nil
}

// zeros are the digits of an id that nothing has.
const zeros = "00000000000000000000000000"

func (t *trigger) signed(
	secrets []domain.Secret, e domain.Event, sequence int64,
) client.PulledEvent {
	at := time.Now()
	if t.stale {
		at = at.Add(-staleBy)
	}
	return forward.Sign(secrets, e.ID, string(e.Body), sequence, at)
}
