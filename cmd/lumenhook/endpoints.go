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
	c := group("endpoints", reading(&a, apicli.Endpoints)...)
	c.AddCommand(
		newEndpointsCreate(&a), newEndpointsUpdate(&a), newEndpointsDelete(&a),
		newEndpointsReplay(&a), newEndpointsRotate(&a), newEndpointsTest(&a),
		acting(&a, "endpoints enable", (*client.Client).EnableEndpoint, apicli.ShowEndpoint),
		acting(&a, "endpoints disable", (*client.Client).DisableEndpoint, apicli.ShowEndpoint),
		acting(&a, "endpoints rotate-signing-key", (*client.Client).RotateSigningKey,
			apicli.ShowEndpoint),
	)
	a.register(c)
	return c
}

func newEndpointsDelete(a *apiFlags) *cobra.Command {
	var yes bool
	var c *cobra.Command
	c = changing(a, "endpoints delete",
		func(ctx context.Context, api *client.Client, args []string) (client.DeletedEndpoint, error) {
			if in := c.InOrStdin(); !yes && cli.IsTerminal(in) {
				if err := apicli.ConfirmDeletion(ctx, api, args[0], in, c.ErrOrStderr()); err != nil {
					return client.DeletedEndpoint{}, err
				}
			}
			return api.DeleteEndpoint(ctx, args[0])
		}, apicli.ShowDeletedEndpoint)
	c.Flags().BoolVar(&yes, "yes", false, "skip the confirmation prompt")
	return c
}

func newEndpointsCreate(a *apiFlags) *cobra.Command {
	var e client.EndpointCreate
	var keep apicli.SecretOut
	c := changing(a, "endpoints create",
		func(ctx context.Context, c *client.Client, _ []string) (client.Endpoint, error) {
			if err := apicli.CheckURL(e.URL); err != nil {
				return client.Endpoint{}, err
			}
			return keep.Keep(func() (client.Endpoint, error) { return c.CreateEndpoint(ctx, e) })
		}, keep.Show)
	cli.AddFields(c.Flags(), &e)
	keep.Register(c.Flags())
	cli.Before(c, func() error { return keep.Check(a.Field) })
	cli.Require(c, "url")
	return c
}

func newEndpointsRotate(a *apiFlags) *cobra.Command {
	var keep apicli.SecretOut
	c := changing(a, "endpoints rotate-secret",
		func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return keep.Keep(func() (client.Endpoint, error) { return c.RotateSecret(ctx, args[0]) })
		}, keep.ShowRotated)
	keep.Register(c.Flags())
	cli.Before(c, func() error { return keep.Check(a.Field) })
	return c
}

func newEndpointsTest(a *apiFlags) *cobra.Command {
	var test client.Test
	c := changing(a, "endpoints test",
		func(ctx context.Context, c *client.Client, args []string) (client.TestResult, error) {
			return c.TestEndpoint(ctx, args[0], test)
		}, apicli.ShowTest, apicli.CheckTest)
	cli.AddFields(c.Flags(), &test)
	return c
}

func newEndpointsUpdate(a *apiFlags) *cobra.Command {
	var e client.EndpointCreate
	var c *cobra.Command
	c = changing(a, "endpoints update",
		func(ctx context.Context, api *client.Client, args []string) (client.Endpoint, error) {
			patch := cli.ChangedFields(c.Flags(), &e)
			if err := apicli.NothingToChange(patch); err != nil {
				return client.Endpoint{}, err
			}
			return api.UpdateEndpoint(ctx, args[0], patch)
		}, apicli.ShowEndpoint)
	cli.AddFields(c.Flags(), &e)
	return c
}

func newEndpointsReplay(a *apiFlags) *cobra.Command {
	var f client.Replay
	c := changing(a, "endpoints replay",
		func(ctx context.Context, c *client.Client, args []string) (client.ReplayResult, error) {
			return c.ReplayEndpoint(ctx, args[0], f)
		}, apicli.ShowReplay)
	cli.AddFields(c.Flags(), &f, "endpoint", "state")
	cli.Require(c, "since")
	return c
}
