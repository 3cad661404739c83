package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/forward"
)

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
	c := &cobra.Command{
		Use:   "trigger [TYPE] --to URL --secret-file FILE",
		Short: "Sign a sample event and post it straight to a receiver, such as one on this machine",
		Long: `Posts a sample of an event: payment.received, unless TYPE names payment.rejected or
test.ping. Nothing is paid. The sample is signed with the secret that you give. No service is
needed, and the receiver may be on this machine, without TLS. To send a sample through the
service, use "lumenhook endpoints test".

Flags say what the payment is, and how the receiver is tried:

  --repeat N        each event is posted N times more, as after an answer that was not heard
  --stale           with a timestamp of ten minutes ago
  --fail-signature  with a signature that is wrong

The program ends with 0 when the receiver took each sample (it answered 2xx) or, with --stale
and --fail-signature, refused each (4xx); else with 1.`,
		Example: `  # A payment to a receiver that you are writing
  lumenhook trigger --to http://127.0.0.1:3000/webhooks --secret-file hook.secret --amount 12.5

  # Does it take an event once that is posted three times?
  lumenhook trigger --to http://127.0.0.1:3000/webhooks --secret-file hook.secret --repeat 2

  # Does it refuse what is forged, and what is old?
  lumenhook trigger --to http://127.0.0.1:3000/webhooks --secret-file hook.secret --fail-signature
  lumenhook trigger --to http://127.0.0.1:3000/webhooks --secret-file hook.secret --stale`,
		Args: cli.OptionalArgument,
		RunE: t.run,
	}
	f := c.Flags()
	t.Output.Register(f)
	t.secrets.Register(f)
	t.sample.Register(f)
	f.StringVar(&t.url, "to", "", "address of the receiver")
	f.IntVar(&t.count, "count", 1, "how many samples, each an event of its own")
	f.IntVar(&t.repeat, "repeat", 0, "how many times more each event is posted")
	f.BoolVar(&t.stale, "stale", false, "sign with a timestamp that is too old")
	f.BoolVar(&t.failSignature, "fail-signature", false, "sign with another secret")
	_ = c.MarkFlagRequired("to")
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
		return cli.Usage(fmt.Errorf("%q is no type of a sample: there are payment.received, "+
			"payment.rejected and test.ping", kind))
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
