package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/mcpserver"
)

// mcpServer is `lumenhook mcp`.
type mcpServer struct {
	config.Service
	secretFile string
}

func newMCP() *cobra.Command {
	var m mcpServer
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Answer an assistant's questions about the service, by the Model Context Protocol",
		Long: `Speaks the Model Context Protocol on standard input and output, and nowhere else. An
assistant that starts it can look at endpoints, watches and events, have an event's attempts
explained, find what is stuck, read a wallet's statement and the coverage of ledgers, check a
webhook's signature, and read the pages of the documentation. It changes nothing, and a key
with the permission to read is enough.

What assistants are configured with, as JSON:

  {"mcpServers": {"lumenhook": {
    "command": "lumenhook",
    "args": ["mcp", "--api-url", "https://api.shop.example"],
    "env": {"LUMENHOOK_API_KEY": "…"}}}}

On the machine of a run, "args": ["mcp", "--data-dir", "/full/path/.lumenhook"] is all. The
program ends when its standard input does, or at a line that is not a message or has more
than 1 MiB.`,
		Example: `  # What an assistant starts; here nobody asks anything
  lumenhook mcp --secret-file hook.secret < /dev/null`,
		Args: cli.NoArguments,
		RunE: m.run,
	}
	m.Register(c.Flags())
	m.RegisterAPI(c.Flags())
	c.Flags().StringVar(&m.secretFile, "secret-file", "",
		"file of an endpoint's signing secrets, one a line, for checks of webhooks; empty: none")
	return c
}

func (m *mcpServer) run(cmd *cobra.Command, _ []string) error {
	api, err := m.API()
	if err != nil {
		return err
	}
	// If the service cannot be asked, the program ends at once: an assistant would retry forever.
	_, err = api.ListEndpoints(cmd.Context(), client.EndpointFilter{}, client.Page{Limit: 1})
	if err != nil {
		return err
	}
	cfg := mcpserver.Config{API: api, Version: cli.ThisBuild().Version}
	if m.secretFile != "" {
		cfg.Secrets = func() ([]domain.Secret, error) { return config.ReadSecrets(m.secretFile, nil) }
	}
	server, err := mcpserver.New(cfg)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Run(cmd.Context(), mcpserver.Stdio{In: cmd.InOrStdin(), Out: cmd.OutOrStdout()})
	}()
	select {
	case err = <-ended:
		if errors.Is(err, io.EOF) {
			return nil // the client asks nothing more
		}
		return err
	case <-cmd.Context().Done():
		return nil // an answer that nobody reads cannot be interrupted, and ends with the program
	}
}
