package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

func newEndpoints() *cobra.Command {
	var r apiFlags
	c := &cobra.Command{Use: "endpoints", Short: "Register and operate endpoints"}
	r.register(c)
	c.AddCommand(
		newEndpointsCreate(&r), newEndpointsList(&r), newEndpointsUpdate(&r), newEndpointsTest(&r), newEndpointsReplay(&r), newEndpointsRotate(&r),
		asking(&r, "get ENDPOINT_ID", "Show an endpoint", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return c.GetEndpoint(ctx, args[0])
		}, showEndpoint),
		asking(&r, "enable ENDPOINT_ID", "Let the sending go on, with what has waited", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return c.EnableEndpoint(ctx, args[0])
		}, showEndpoint),
		asking(&r, "disable ENDPOINT_ID", "Stop the sending; events wait", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return c.DisableEndpoint(ctx, args[0])
		}, showEndpoint),
		asking(&r, "delete ENDPOINT_ID", "Delete an endpoint; what waits for it is cancelled", cli.OneArgument, func(ctx context.Context, c *client.Client, args []string) (struct{}, error) {
			return struct{}{}, c.DeleteEndpoint(ctx, args[0])
		}, done("deleted")),
	)
	return c
}

func showEndpoint(w io.Writer, e client.Endpoint) {
	cli.Row(w, "id", e.ID)
	cli.Row(w, "url", e.URL)
	cli.Row(w, "description", e.Description)
	cli.Row(w, "status", e.Status)
	if e.DisabledReason != nil {
		cli.Row(w, "disabled", *e.DisabledReason+" at "+cli.OneLine(e.DisabledAt))
	}
	cli.Row(w, "failures", e.ConsecutiveFailures)
	for name, value := range e.Headers {
		cli.Row(w, "header", name+": "+value)
	}
	for _, name := range e.LostHeaders {
		cli.Row(w, "header", name+": its value cannot be read any more, and nothing is sent: set it anew")
	}
	cli.Row(w, "rate limit", e.RateLimitPerSecond)
	cli.Row(w, "created", e.CreatedAt)
	for _, warning := range e.Warnings {
		cli.Row(w, "warning", warning)
	}
	if e.Secret != "" {
		cli.Row(w, "secret", e.Secret)
		_, _ = io.WriteString(w, "\nThe secret is shown this once: keep it.\n")
	}
}

// endpointFlags are the fields of an endpoint.
type endpointFlags struct {
	url, description string
	headers          []string
	rateLimit        int
}

func (e *endpointFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&e.url, "url", "", "where events are posted")
	f.StringVar(&e.description, "description", "", "a text for people")
	f.StringArrayVar(&e.headers, "header", nil, "a header of your own, Name: value; may be repeated; when updating, Name: alone takes it away")
	f.IntVar(&e.rateLimit, "rate-limit", 0, "deliveries a second at most; 0: no limit")
}

func (e *endpointFlags) headerMap() (map[string]any, error) {
	headers := map[string]any{}
	for _, text := range e.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return nil, cli.Usage(fmt.Errorf("--header %q: must be Name: value", text))
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
		if strings.TrimSpace(value) == "" {
			headers[strings.TrimSpace(name)] = nil
		}
	}
	return headers, nil
}

func newEndpointsCreate(r *apiFlags) *cobra.Command {
	var e endpointFlags
	var keep secretOut
	c := asking(r, "create --url https://…", "Register an endpoint and show its secret", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.Endpoint, error) {
			given, err := e.headerMap()
			if err != nil {
				return client.Endpoint{}, err
			}
			headers := make(map[string]string, len(given))
			for name, value := range given {
				headers[name], _ = value.(string)
			}
			return keep.of(func() (client.Endpoint, error) {
				return c.CreateEndpoint(ctx, client.EndpointCreate{URL: e.url, Description: e.description, Headers: headers, RateLimitPerSecond: e.rateLimit})
			})
		}, showEndpoint)
	e.register(c)
	keep.register(c)
	_ = c.MarkFlagRequired("url")
	return c
}

func newEndpointsRotate(r *apiFlags) *cobra.Command {
	var keep secretOut
	c := asking(r, "rotate-secret ENDPOINT_ID", "Give an endpoint a new secret", cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.Endpoint, error) {
			return keep.of(func() (client.Endpoint, error) { return c.RotateSecret(ctx, args[0]) })
		}, showEndpoint)
	keep.register(c)
	return c
}

// secretOut keeps a new secret off the terminal.
type secretOut struct{ file string }

func (s *secretOut) register(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "secret-out", "", "file that the secret is added to, as a line, instead of being shown; made readable by its owner alone")
}

// of asks for an endpoint with a new secret. The file is opened before: a secret is
// answered once, and must have where to go.
func (s *secretOut) of(ask func() (client.Endpoint, error)) (client.Endpoint, error) {
	if s.file == "" {
		return ask()
	}
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return client.Endpoint{}, fmt.Errorf("--secret-out: %w", err)
	}
	e, err := ask()
	if err != nil {
		return e, errors.Join(err, f.Close())
	}
	_, err = fmt.Fprintln(f, e.Secret)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return e, fmt.Errorf("--secret-out: the secret of %s could not be kept, rotate it: %w", e.ID, err)
	}
	e.Secret = ""
	return e, nil
}

func newEndpointsUpdate(r *apiFlags) *cobra.Command {
	var e endpointFlags
	var c *cobra.Command
	c = asking(r, "update ENDPOINT_ID", "Change an endpoint", cli.OneArgument,
		func(ctx context.Context, api *client.Client, args []string) (client.Endpoint, error) {
			patch := client.Patch{}
			changed := c.Flags().Changed
			if changed("url") {
				patch["url"] = e.url
			}
			if changed("description") {
				patch["description"] = e.description
			}
			if changed("header") {
				headers, err := e.headerMap()
				if err != nil {
					return client.Endpoint{}, err
				}
				patch["headers"] = headers
			}
			if changed("rate-limit") {
				patch["rateLimitPerSecond"] = nil
				if e.rateLimit != 0 {
					patch["rateLimitPerSecond"] = e.rateLimit
				}
			}
			if len(patch) == 0 {
				return client.Endpoint{}, cli.Usage(errors.New("nothing to change: give --url, --description, --header or --rate-limit"))
			}
			return api.UpdateEndpoint(ctx, args[0], patch)
		}, showEndpoint)
	e.register(c)
	return c
}

func newEndpointsList(r *apiFlags) *cobra.Command {
	var p cli.PageFlags
	var f client.EndpointFilter
	c := asking(r, "list", "List endpoints, newest first", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.List[client.Endpoint], error) {
			return c.ListEndpoints(ctx, f, p.Page)
		}, func(w io.Writer, l client.List[client.Endpoint]) {
			cli.Row(w, "ID", "STATUS", "FAILURES", "URL", "DESCRIPTION", "CREATED")
			for _, e := range l.Data {
				cli.Row(w, e.ID, e.Status, e.ConsecutiveFailures, e.URL, e.Description, e.CreatedAt)
			}
			cli.More(w, l.NextCursor)
		})
	p.Register(c)
	c.Flags().StringVar(&f.Status, "status", "", "active or disabled")
	return c
}

func newEndpointsTest(r *apiFlags) *cobra.Command {
	return asking(r, "test ENDPOINT_ID", "Send a test.ping and show its first attempt", cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.TestResult, error) {
			return c.TestEndpoint(ctx, args[0])
		}, func(w io.Writer, t client.TestResult) {
			cli.Row(w, "event", t.EventID)
			cli.Row(w, "status code", t.Attempt.StatusCode)
			cli.Row(w, "duration", fmt.Sprintf("%d ms", t.Attempt.DurationMs))
			cli.Row(w, "error", t.Attempt.Error)
		})
}

func newEndpointsReplay(r *apiFlags) *cobra.Command {
	var since, until string
	c := asking(r, "replay ENDPOINT_ID --since 24h", "Queue failed deliveries again", cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.ReplayResult, error) {
			from, err := cli.InstantFlag("since", since)
			to, untilErr := cli.InstantFlag("until", until)
			if err := errors.Join(err, untilErr); err != nil {
				return client.ReplayResult{}, err
			}
			body := client.Replay{Since: from.UTC()}
			if !to.IsZero() {
				to = to.UTC()
				body.Until = &to
			}
			return c.ReplayEndpoint(ctx, args[0], body)
		}, func(w io.Writer, a client.ReplayResult) {
			cli.Row(w, "queued", a.Queued)
			cli.Row(w, "matched", a.Matched)
			if a.Truncated {
				_, _ = io.WriteString(w, "\nMore matched than one replay queues: replay again.\n")
			}
		})
	c.Flags().StringVar(&since, "since", "", "those whose createdAt is then or later: a time, or how long ago")
	c.Flags().StringVar(&until, "until", "", "those whose createdAt is before: a time, or how long ago")
	_ = c.MarkFlagRequired("since")
	return c
}
