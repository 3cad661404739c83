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
	c := &cobra.Command{Use: "endpoints", Short: "Create and manage endpoints"}
	a.register(c)
	c.AddCommand(
		newEndpointsCreate(&a), newEndpointsList(&a), newEndpointsUpdate(&a),
		newEndpointsReplay(&a), newEndpointsRotate(&a), newEndpointsRotateKey(&a), newEndpointsTest(&a),
		newEndpointsHistory(&a),
		getting(&a, apicli.Endpoints, "Show an endpoint",
			`  # Show an endpoint's state, including consecutive failures and why it was disabled
  lumenhook endpoints get ep_…`),
		acting(&a, "enable ENDPOINT_ID", "Resume sending to an endpoint, starting with pending events",
			(*client.Client).EnableEndpoint, apicli.ShowEndpoint,
			`  # Send pending events now that the shop is back online
  lumenhook endpoints enable ep_…`),
		acting(&a, "disable ENDPOINT_ID", "Stop sending to an endpoint and keep its events pending",
			(*client.Client).DisableEndpoint, apicli.ShowEndpoint,
			`  # Keep events pending while the shop is under maintenance
  lumenhook endpoints disable ep_…`),
		newEndpointsDelete(&a),
	)
	c.Example = examplesOf(c, "create", "test")
	return c
}

func newEndpointsDelete(a *apiFlags) *cobra.Command {
	var yes bool
	var c *cobra.Command
	c = changing(a, "delete ENDPOINT_ID", "Delete an endpoint and cancel its pending deliveries",
		func(ctx context.Context, api *client.Client, args []string) (client.DeletedEndpoint, error) {
			if in := c.InOrStdin(); !yes && cli.IsTerminal(in) {
				if err := apicli.ConfirmDeletion(ctx, api, args[0], in, c.ErrOrStderr()); err != nil {
					return client.DeletedEndpoint{}, err
				}
			}
			return api.DeleteEndpoint(ctx, args[0])
		}, apicli.ShowDeletedEndpoint)
	c.Long = `Delete an endpoint and cancel its pending deliveries. The endpoint's watches aren't
deleted. To deliver the payments that they match from then on, assign another
endpoint with "lumenhook watches update". In a terminal, the command shows these
watches and asks for confirmation.`
	c.Example = `  # Permanently delete an endpoint without confirmation
  lumenhook endpoints delete ep_… --yes`
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation prompt")
	return c
}

func newEndpointsCreate(a *apiFlags) *cobra.Command {
	var e client.EndpointCreate
	var keep apicli.SecretOut
	c := changing(a, "create --url https://…", "Create an endpoint and show its secret",
		func(ctx context.Context, c *client.Client, _ []string) (client.Endpoint, error) {
			if err := apicli.CheckURL(e.URL); err != nil {
				return client.Endpoint{}, err
			}
			return keep.Keep(func() (client.Endpoint, error) { return c.CreateEndpoint(ctx, e) })
		}, keep.Show)
	c.Example = `  # Create an endpoint for a shop
  lumenhook endpoints create --url https://shop.example:8443/hook --description "the shop"

  # Create an endpoint for "devnet receiver" and save its secret to a file
  lumenhook endpoints create --url https://127.0.0.1:8443/webhooks --secret-out hook.secret`
	cli.AddFields(c.Flags(), &e)
	keep.Register(c.Flags())
	cli.Before(c, func() error { return keep.Check(a.Field) })
	cli.Require(c, "url")
	return c
}

func newEndpointsRotate(a *apiFlags) *cobra.Command {
	var keep apicli.SecretOut
	c := changing(a, "rotate-secret ENDPOINT_ID", "Rotate an endpoint's signing secret",
		func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return keep.Keep(func() (client.Endpoint, error) { return c.RotateSecret(ctx, args[0]) })
		}, keep.ShowRotated)
	c.Example = `  # Create a new secret; the old one also signs webhooks for 24 hours
  lumenhook endpoints rotate-secret ep_… --secret-out hook.secret`
	keep.Register(c.Flags())
	cli.Before(c, func() error { return keep.Check(a.Field) })
	return c
}

func newEndpointsRotateKey(a *apiFlags) *cobra.Command {
	c := changing(a, "rotate-signing-key ENDPOINT_ID", "Rotate an endpoint's Ed25519 key",
		func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return c.RotateSigningKey(ctx, args[0])
		}, apicli.ShowEndpoint)
	c.Example = `  # Create a new key; the old one also signs webhooks for 24 hours
  lumenhook endpoints rotate-signing-key ep_…`
	return c
}

func newEndpointsTest(a *apiFlags) *cobra.Command {
	var result client.TestResult
	var test client.Test
	c := changing(a, "test ENDPOINT_ID",
		"Send a test event to an endpoint and show the first attempt",
		func(ctx context.Context, c *client.Client, args []string) (_ client.TestResult, err error) {
			result, err = c.TestEndpoint(ctx, args[0], test)
			return result, err
		}, apicli.ShowTest)
	cli.AddFields(c.Flags(), &test)
	c.Example = `  # Check that the receiver responds and accepts the signature
  lumenhook endpoints test ep_…

  # Send a sample payment to test how your code processes the body
  lumenhook endpoints test ep_… --type payment.received`
	c.Long = `Send a test.ping or a sample payment to an endpoint, wait for the first attempt and
show it. The wallet and the payment in the sample aren't real.

The exit code is 0 if the receiver accepts the test with a 2xx response. Otherwise,
it is 1. The command prints the attempt in both cases.`
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
	c = changing(a, "update ENDPOINT_ID", "Update an endpoint",
		func(ctx context.Context, api *client.Client, args []string) (client.Endpoint, error) {
			patch := cli.ChangedFields(c.Flags(), &e)
			if err := apicli.NothingToChange(patch); err != nil {
				return client.Endpoint{}, err
			}
			return api.UpdateEndpoint(ctx, args[0], patch)
		}, apicli.ShowEndpoint)
	c.Example = `  # Limit an endpoint to 20 webhooks per second
  lumenhook endpoints update ep_… --rate-limit 20

  # Add a custom header to each webhook
  lumenhook endpoints update ep_… --header "X-Shop: 7"`
	cli.AddFields(c.Flags(), &e)
	return c
}

func newEndpointsList(a *apiFlags) *cobra.Command {
	c := listing(a, apicli.Endpoints, "List endpoints and their health, worst first")
	c.Long = `List endpoints, least healthy first.

  down      the last attempt failed, and none has succeeded for at least 5 minutes.
  failing   fewer than 9 in 10 attempts succeeded in the last hour.
  disabled  the endpoint receives no events.
  healthy   none of the other states apply.
  idle      there were no attempts in the last 7 days.
  unknown   the history isn't available right now.

The success rate is the percentage of attempts that succeeded. The LAST 24H column
shows one bar per hour for the success rate, or a dot if there were no attempts in
that hour.`
	c.Example = `  # Find endpoints that are down
  lumenhook endpoints list

  # List disabled endpoints
  lumenhook endpoints list --status disabled`
	return c
}

func newEndpointsReplay(a *apiFlags) *cobra.Command {
	var f client.Replay
	c := changing(a, "replay ENDPOINT_ID --since 24h", "Retry an endpoint's failed deliveries",
		func(ctx context.Context, c *client.Client, args []string) (client.ReplayResult, error) {
			return c.ReplayEndpoint(ctx, args[0], f)
		}, apicli.ShowReplay)
	c.Long = `Queue up to 1,000 of an endpoint's failed deliveries again. The command only queues
deliveries that are newer than --since and match every filter. To see how many match
without queueing them, use --dry-run.`
	c.Example = `  # Count the deliveries that failed in the last day
  lumenhook endpoints replay ep_… --since 24h --dry-run

  # Queue only the most valuable failed deliveries again
  lumenhook endpoints replay ep_… --since 24h --asset XLM --min-amount 100`
	cli.AddFields(c.Flags(), &f, "endpoint", "state")
	cli.Require(c, "since")
	return c
}
