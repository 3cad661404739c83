package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newPortal() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{
		Use:   "portal",
		Short: "Give a merchant access to a part of the console, for a limited time",
	}
	a.register(c)
	c.AddCommand(newPortalLink(&a))
	c.Example = examplesOf(c, "link")
	return c
}

func newPortalLink(a *apiFlags) *cobra.Command {
	var permissions []string
	var endpoint string
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "link --permissions read",
		Short: "Make a link that opens the account's pages, with chosen permissions, until a time",
		Long: `Makes a link that opens the account's pages in a browser without an API key: in a window
of its own or, where the service has --portal-frame-ancestors, in a frame of a merchant's page.

The link opens them for ten minutes. They can be used until --expires-in has passed or the
key that made the link ends, whichever is first. With --endpoint they are of that endpoint
alone: the others of the account, their events and their watches are not there.

Anyone with the link has its permissions. Create one link per person, and send it like a
password.`,
		Example: `  # An hour of looking at endpoints, watches and events
  lumenhook portal link --permissions read

  # A merchant who shares the account: one endpoint, and nothing of the others
  lumenhook portal link --permissions read,operate --endpoint ep_…

  # A working day in which deliveries can be sent again; the address alone, for a script
  lumenhook portal link --permissions read,operate --expires-in 8h --field url`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.API()
			if err != nil {
				return err
			}
			seconds := int(lasts.Seconds())
			wanted := client.PortalLinkCreate{Permissions: permissions, ExpiresInSeconds: &seconds}
			if cmd.Flags().Changed("endpoint") { // an empty one is refused, and gives not the whole account
				wanted.EndpointID = &endpoint
			}
			made, err := c.CreatePortalLink(cmd.Context(), wanted)
			if err != nil {
				return err
			}
			shown := apicli.PortalLink{URL: made.URL, PortalLink: made}
			return a.Print(cmd.OutOrStdout(), shown, func(w io.Writer) { shown.Show(w) })
		},
	}
	c.Flags().StringSliceVar(&permissions, "permissions", nil, "what the link may do, of read, write "+
		"and operate: no more than the API key may")
	cli.Offer(c.Flags(), "permissions", "read", "write", "operate")
	c.Flags().StringVar(&endpoint, "endpoint", "",
		"the endpoint (ep_…) of which alone the link is (default: all of the account)")
	cli.DurationWithin(c.Flags(), &lasts, "expires-in", time.Hour, time.Minute, 24*time.Hour,
		"how long the pages can be used")
	_ = c.MarkFlagRequired("permissions")
	a.Changes(c)
	return c
}
