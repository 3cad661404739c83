package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/doctor"
	"github.com/lumenhook/lumenhook/internal/mcpserver"
	"github.com/lumenhook/lumenhook/internal/server"
)

func newHealth() *cobra.Command {
	var asked config.HealthFlags
	var out cli.Output
	c := &cobra.Command{
		Use:   "health",
		Short: "Check whether a running process works, and which part does not",
		Long: `Requests /readyz of a process of ` + "`lumenhook serve` or `lumenhook run`" + `, and prints
the status of each part. Use it as a probe of a container or of systemd. It ends with 0 if
all parts work. It ends with 1 if a part does not, or if there is no answer in time.

With --alive it requests /healthz: whether the process answers at all. Use that for
liveness probes: a restart does not help a process whose Kafka is away.`,
		Example: `  # Of the service of this machine
  lumenhook health

  # Of the process that serves by this file, as a probe asks
  lumenhook health --config /etc/lumenhook/lumenhook.yaml

  # Of a process elsewhere, with each part as JSON
  lumenhook health --metrics-listen 10.0.0.7:9464 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			health, err := asked.Ask(cmd.Context())
			if err != nil {
				return err
			}
			err = out.Print(cmd.OutOrStdout(), health, func(w io.Writer) { showHealth(w, health) })
			if err != nil {
				return err
			}
			return health.Fault()
		},
	}
	asked.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func showHealth(w io.Writer, h config.Health) {
	cli.Row(w, h.URL+": "+h.Status)
	for _, part := range h.Checks {
		cli.Row(w, part.Name, part.Status, part.Detail)
	}
}

func newDoctor() *cobra.Command {
	var asked server.Checkup
	var out cli.Output
	c := &cobra.Command{
		Use:   "doctor [--config FILE | --data-dir FOLDER] [--only CHECK,…] [--url https://…]",
		Short: "Check everything that a service needs, and say how to fix it",
		Long: `Checks the configuration, the files of secrets, Kafka and ClickHouse. It also checks the
sources of ledgers, the clock, name servers and the way to receivers. It checks the
disk, the limits of the process and the mail server. For each problem it says what to do.

It takes the flags, variables and files of ` + "`lumenhook serve`" + `, so you can run it before a
start. Without --kafka-brokers it checks the service that runs on --data-dir. If no service
runs there, it checks the folder and this machine only. It changes nothing, sends no mail,
and sends receivers no request. With --url it opens a connection to a receiver, as an
attempt would, and reports the result.

All checks run at once, each within --timeout. It ends with 0 if there is no problem, even
if there are warnings. It ends with 1 if there is a problem, or something could not be
checked. It ends with 2 if the configuration itself is invalid.`,
		Example: `  # Is all well around the service of this folder?
  lumenhook doctor

  # What would fail, before a process of serve is started
  lumenhook doctor --config /etc/lumenhook/lumenhook.yaml

  # Why is a receiver not reached?
  lumenhook doctor --only dns,egress --url https://shop.example/webhooks`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := asked.Config()
			if err != nil {
				return err
			}
			return examine(cmd, &out, cfg)
		},
	}
	asked.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func examine(cmd *cobra.Command, out *cli.Output, cfg doctor.Config) error {
	w := cmd.OutOrStdout()
	asTheyEnd := func(r doctor.Result) { showResult(w, r) }
	if out.JSON || out.Field != "" {
		asTheyEnd = func(doctor.Result) {}
	}
	report := doctor.Run(cmd.Context(), cfg, asTheyEnd)
	if out.JSON || out.Field != "" {
		if err := out.Print(w, report, nil); err != nil {
			return err
		}
	}
	if len(cfg.Faults) > 0 {
		return cli.Usage(cli.Faults(cfg.Faults))
	}
	fault := report.Fault()
	if fault == nil || out.Field == "" && saysWhyAway(report) {
		return fault
	}
	return errors.Join(cfg.Away, fault)
}

// saysWhyAway reports whether the check that says why a service does not run is shown.
func saysWhyAway(report doctor.Report) bool {
	return slices.ContainsFunc(report.Checks, func(r doctor.Result) bool {
		return r.Name == doctor.Configuration
	})
}

// showResult prints a check as it ends: a line a finding, and below it what to do.
func showResult(w io.Writer, r doctor.Result) {
	const line = "%-13s  %-7s  %s\n"
	name := r.Name
	for _, f := range r.Findings {
		fmt.Fprintf(w, line, name, mark(f.Status), cli.OneLine(f.Found))
		if f.Do != "" {
			fmt.Fprintf(w, line, "", "", "→ "+cli.OneLine(f.Do))
		}
		name = ""
	}
	if took := time.Duration(r.DurationMs) * time.Millisecond; took >= time.Second {
		fmt.Fprintf(w, line, "", "", fmt.Sprintf("(it took %s)", took))
	}
}

func mark(s doctor.Status) string {
	if s == doctor.Problem {
		return "PROBLEM"
	}
	return string(s)
}

func newConfig() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Look at the configuration of `lumenhook serve`"}
	c.AddCommand(newConfigCheck())
	c.Example = examplesOf(c, "check")
	return c
}

func newConfigCheck() *cobra.Command {
	var s server.Flags
	var out cli.Output
	c := &cobra.Command{
		Use:   "check",
		Short: "Print the effective settings, and where each came from",
		Long: `Reads the flags, variables and files of ` + "`lumenhook serve`" +
			`, reports every fault in them, and prints
the effective settings, with secrets masked. It connects to nothing: check the
cluster with ` + "`lumenhook topics check`" + `.`,
		Example: `  # Before a restart: is the file right, and what is effective?
  lumenhook config check --config lumenhook.yaml

  # Where one setting comes from, among file, variables and flags
  lumenhook config check --config lumenhook.yaml | grep topic-prefix`,
	}
	s.Register(c.Flags())
	out.Register(c.Flags())
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		settings := cli.Effective(cmd.Flags())
		shown := out.Print(cmd.OutOrStdout(), settings, func(w io.Writer) {
			cli.Row(w, "SETTING", "VALUE", "FROM")
			for _, one := range settings {
				cli.Row(w, one.Name, one.Value, one.From)
			}
		})
		return errors.Join(cli.Usage(s.Check()), shown)
	}
	return c
}

func newMan() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "man --to FOLDER",
		Short: "Write a man page for each command",
		Long: `Writes a page of section 1 for each command, with the text of --help. man finds pages in a
folder man1 below $MANPATH. Archives of a release contain them.`,
		Example: `  # Then: man lumenhook-endpoints-create
  lumenhook man --to ~/.local/share/man/man1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage(errors.New(`--to "": must name a folder`))
			}
			return writeManPages(cmd.Root(), to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "folder to write; created if it is missing")
	cli.Require(c, "to")
	return c
}

// writeManPages writes what depends on the tree of commands and the version alone: pages of the
// same program are the same, whenever they are made.
func writeManPages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- everybody may read pages
		return fmt.Errorf("making the folder: %w", err)
	}
	forPages(root)
	return doc.GenManTree(root, &doc.GenManHeader{
		Section: "1",
		Source:  root.Name() + " " + cli.ThisBuild().Version,
		Manual:  "Lumenhook",
		Date:    new(time.Unix(0, 0).UTC()),
	}, dir)
}

// belowAList is where text follows an indented line. Help shows them one below the other; roff sets
// them in one paragraph, unless an empty line parts them.
var belowAList = regexp.MustCompile(`(?m)^( .*\n)([^ \n])`)

// forPages adapts the commands' texts for man pages, without the date on which they are made.
func forPages(c *cobra.Command) {
	c.DisableAutoGenTag = true
	c.Long = belowAList.ReplaceAllString(c.Long, "$1\n$2")
	for _, sub := range c.Commands() {
		forPages(sub)
	}
}

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
		Long: `Speaks the Model Context Protocol on standard input and output. An assistant that starts it
can read endpoints, watches, events, statements of wallets and the coverage of ledgers. It can
explain the attempts of an event, find stuck deliveries, check a webhook's signature, and read
the documentation. It changes nothing, and needs a key with the permission to read.

Configure an assistant with this JSON.

  {"mcpServers": {"lumenhook": {
    "command": "lumenhook",
    "args": ["mcp", "--api-url", "https://api.shop.example"],
    "env": {"LUMENHOOK_API_KEY": "…"}}}}

On the machine of a run, "args": ["mcp", "--data-dir", "/full/path/.lumenhook"] is enough.
The program ends with its standard input, or at an invalid line or one over 1 MiB.`,
		Example: `  # What an assistant starts; here without a question
  lumenhook mcp --secret-file hook.secret < /dev/null`,
		RunE: m.run,
	}
	m.Register(c.Flags())
	m.RegisterAPI(c.Flags())
	c.Flags().StringVar(&m.secretFile, "secret-file", "",
		"file of an endpoint's signing secrets, one per line, to check webhooks; empty: none")
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
