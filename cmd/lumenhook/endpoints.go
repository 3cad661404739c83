package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newEndpoints() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{Use: "endpoints", Short: "Register and operate endpoints"}
	a.register(c)
	c.AddCommand(
		newEndpointsCreate(&a), newEndpointsList(&a), newEndpointsUpdate(&a),
		newEndpointsReplay(&a), newEndpointsRotate(&a), newEndpointsRotateKey(&a), newEndpointsTest(&a),
		newEndpointsHistory(&a),
		getting(&a, apicli.Endpoints, "Show an endpoint",
			`  # Its state: failures in a row, and why it is disabled
  lumenhook endpoints get ep_…`),
		acting(&a, "enable ENDPOINT_ID", "Resume sending, beginning with the events that waited",
			(*client.Client).EnableEndpoint, apicli.ShowEndpoint,
			`  # The shop works again: send the events that waited
  lumenhook endpoints enable ep_…`),
		acting(&a, "disable ENDPOINT_ID", "Stop sending; events wait",
			(*client.Client).DisableEndpoint, apicli.ShowEndpoint,
			`  # The shop is being repaired: let every event wait
  lumenhook endpoints disable ep_…`),
		newEndpointsDelete(&a),
	)
	c.Example = examplesOf(c, "create", "test")
	return c
}

func newEndpointsDelete(a *apiFlags) *cobra.Command {
	var yes bool
	var c *cobra.Command
	c = changing(a, "delete ENDPOINT_ID", "Delete an endpoint; its pending deliveries are cancelled",
		func(ctx context.Context, api *client.Client, args []string) (client.DeletedEndpoint, error) {
			if in := c.InOrStdin(); !yes && cli.IsTerminal(in) {
				if err := apicli.ConfirmDeletion(ctx, api, args[0], in, c.ErrOrStderr()); err != nil {
					return client.DeletedEndpoint{}, err
				}
			}
			return api.DeleteEndpoint(ctx, args[0])
		}, apicli.ShowDeletedEndpoint)
	c.Long = `Deletes an endpoint and cancels its pending deliveries. Its watches stay. What they
match from then on is delivered once you give them another endpoint: "lumenhook
watches update". At a terminal, the command shows these watches and asks first.`
	c.Example = `  # Permanently, and without a question
  lumenhook endpoints delete ep_… --yes`
	c.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	return c
}

func newEndpointsCreate(a *apiFlags) *cobra.Command {
	var e client.EndpointCreate
	var keep apicli.SecretOut
	c := changing(a, "create --url https://…", "Register an endpoint and show its secret",
		func(ctx context.Context, c *client.Client, _ []string) (client.Endpoint, error) {
			if err := apicli.CheckURL(e.URL); err != nil {
				return client.Endpoint{}, err
			}
			return keep.Keep(func() (client.Endpoint, error) { return c.CreateEndpoint(ctx, e) })
		}, keep.Show)
	c.Example = `  # Where a shop receives its webhooks
  lumenhook endpoints create --url https://shop.example:8443/hook --description "the shop"

  # The receiver of "devnet receiver"; the secret goes into a file, and not onto the screen
  lumenhook endpoints create --url https://127.0.0.1:8443/webhooks --secret-out hook.secret`
	cli.AddFields(c.Flags(), &e)
	keep.Register(c.Flags())
	cli.Before(c, func() error { return keep.Check(a.Field) })
	cli.Require(c, "url")
	return c
}

func newEndpointsRotate(a *apiFlags) *cobra.Command {
	var keep apicli.SecretOut
	c := changing(a, "rotate-secret ENDPOINT_ID", "Give an endpoint a new secret",
		func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return keep.Keep(func() (client.Endpoint, error) { return c.RotateSecret(ctx, args[0]) })
		}, keep.ShowRotated)
	c.Example = `  # A new secret; the former one also signs for 24 hours
  lumenhook endpoints rotate-secret ep_… --secret-out hook.secret`
	keep.Register(c.Flags())
	cli.Before(c, func() error { return keep.Check(a.Field) })
	return c
}

func newEndpointsRotateKey(a *apiFlags) *cobra.Command {
	c := changing(a, "rotate-signing-key ENDPOINT_ID", "Give an endpoint a new Ed25519 key",
		func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return c.RotateSigningKey(ctx, args[0])
		}, apicli.ShowEndpoint)
	c.Example = `  # The former key also signs for 24 hours.
  lumenhook endpoints rotate-signing-key ep_…`
	return c
}

func newEndpointsTest(a *apiFlags) *cobra.Command {
	var result client.TestResult
	var test client.Test
	c := changing(a, "test ENDPOINT_ID", "Send a test and show its first attempt",
		func(ctx context.Context, c *client.Client, args []string) (_ client.TestResult, err error) {
			result, err = c.TestEndpoint(ctx, args[0], test)
			return result, err
		}, apicli.ShowTest)
	cli.AddFields(c.Flags(), &test)
	c.Example = `  # Does the receiver answer, and take the signature?
  lumenhook endpoints test ep_…

  # With the body of a payment, for the code behind the signature
  lumenhook endpoints test ep_… --type payment.received`
	c.Long = `Sends a test.ping or a sample payment to an endpoint, waits for the first attempt and
shows it. The sample's wallet and payment do not exist.

The program ends with 0 if the receiver accepted the test (it answered 2xx), and with 1
otherwise. It prints the attempt in both cases.`
	shown := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := shown(cmd, args); err != nil {
			return err
		}
		return apicli.CheckTest(result)
	}
	return c
}

func newEndpointsUpdate(a *apiFlags) *cobra.Command {
	var e client.EndpointCreate
	var c *cobra.Command
	c = changing(a, "update ENDPOINT_ID", "Change an endpoint",
		func(ctx context.Context, api *client.Client, args []string) (client.Endpoint, error) {
			patch := cli.ChangedFields(c.Flags(), &e)
			if err := apicli.NothingToChange(patch); err != nil {
				return client.Endpoint{}, err
			}
			return api.UpdateEndpoint(ctx, args[0], patch)
		}, apicli.ShowEndpoint)
	c.Example = `  # At most 20 webhooks a second
  lumenhook endpoints update ep_… --rate-limit 20

  # A header of your own with each of them
  lumenhook endpoints update ep_… --header "X-Shop: 7"`
	cli.AddFields(c.Flags(), &e)
	return c
}

func newEndpointsList(a *apiFlags) *cobra.Command {
	c := listing(a, apicli.Endpoints, "List endpoints and their health, worst first")
	c.Long = `Lists endpoints, the least healthy first.

  down      the last attempt failed, and none has delivered for 5 minutes or more.
  failing   fewer than 9 in 10 attempts of the last hour delivered.
  disabled  nothing is sent.
  healthy   all others.
  idle      there was no attempt in the last 7 days.
  unknown   the history cannot be read now.

The success rate is the share of attempts that delivered. LAST 24H has a bar for the success rate of
each hour. A dot is an hour without attempts.`
	c.Example = `  # Which are down?
  lumenhook endpoints list

  # Those to which nothing is sent
  lumenhook endpoints list --status disabled`
	return c
}

func newEndpointsReplay(a *apiFlags) *cobra.Command {
	var f client.Replay
	c := changing(a, "replay ENDPOINT_ID --since 24h", "Queue failed deliveries again",
		func(ctx context.Context, c *client.Client, args []string) (client.ReplayResult, error) {
			return c.ReplayEndpoint(ctx, args[0], f)
		}, apicli.ShowReplay)
	c.Long = `Queues up to 1,000 failed deliveries of an endpoint again: those since a time that match
every filter. --dry-run reports how many match, and queues none.`
	c.Example = `  # How many deliveries of a day have failed?
  lumenhook endpoints replay ep_… --since 24h --dry-run

  # Queue those again that matter most
  lumenhook endpoints replay ep_… --since 24h --asset XLM --min-amount 100`
	cli.AddFields(c.Flags(), &f, "endpoint", "state")
	cli.Require(c, "since")
	return c
}
