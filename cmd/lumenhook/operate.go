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
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/mcpserver"
	"github.com/lumenhook/lumenhook/internal/server"
)

func newHealth() *cobra.Command {
	var asked config.HealthFlags
	var out cli.Output
	c := &cobra.Command{
		Use:   "health",
		Short: "Check the health of a running process",
		Long: `Request /readyz from a ` + "`lumenhook serve` or `lumenhook run`" + ` process and print
the status of each part. You can use this command as a probe for a container or
systemd. The exit code is 0 if every part is healthy. If a part is unhealthy, or if
the process doesn't respond in time, the exit code is 1.

With --alive, the command requests /healthz to check whether the process responds at
all. Use it for liveness probes, because restarting a process doesn't help if Kafka
is down.`,
		Example: `  # Check the service on this machine
  lumenhook health

  # Check the process that uses this configuration file, for example in a probe
  lumenhook health --config /etc/lumenhook/lumenhook.yaml

  # Check a process on another machine and print each part as JSON
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
		Short: "Diagnose problems with a service and suggest fixes",
		Long: `Check the configuration, the secret files, Kafka, ClickHouse and the ledger sources.
The checks also cover the clock, name servers, outgoing connections to receivers, the
disk, process limits and the mail server. For each problem, the output suggests a
fix.

The command accepts the same flags, variables and files as ` + "`lumenhook serve`" + `, so you
can run it before you start a process. Without --kafka-brokers, it checks the service
that runs on --data-dir. If no service is running there, it only checks the folder
and this machine. The command doesn't change anything, send email or contact
receivers. To test the connection to a receiver the way an attempt would, use --url.

All checks run in parallel, each with the timeout set by --timeout. The exit code is
0 if there are no problems, even if there are warnings. It is 1 if there is a problem
or if a check couldn't run, and 2 if the configuration itself is invalid.`,
		Example: `  # Check the service that uses the default data folder
  lumenhook doctor

  # Find problems before you start a process
  lumenhook doctor --config /etc/lumenhook/lumenhook.yaml

  # Find out why a receiver can't be reached
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
	c := &cobra.Command{Use: "config", Short: "Check the configuration of `lumenhook serve`"}
	c.AddCommand(newConfigCheck())
	c.Example = examplesOf(c, "check")
	return c
}

func newConfigCheck() *cobra.Command {
	var s server.Flags
	var out cli.Output
	c := &cobra.Command{
		Use:   "check",
		Short: "Print the effective settings and their sources",
		Long: `Read the flags, variables and files of ` + "`lumenhook serve`" + `, report every error
and print the effective settings. Secrets are masked. The command doesn't connect to
anything. To check the cluster, run ` + "`lumenhook topics check`" + `.`,
		Example: `  # Check the configuration file before a restart
  lumenhook config check --config lumenhook.yaml

  # Find out whether a setting comes from a file, a variable or a flag
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

func newInstallClickHouse() *cobra.Command {
	var opts clickhouse.Options
	c := &cobra.Command{
		Use:   "install-clickhouse [--from FILE]",
		Short: "Install the embedded ClickHouse, also on a server without npm",
		Long: `Install the ClickHouse engine that "lumenhook run" embeds. By default, the command
downloads it through npm. On a server without npm or without access to a registry,
pass the engine's package as a file. To download the file on another machine, run:

  npm pack ` + clickhouse.NPMPackage() + `

The command verifies the engine's SHA-256 hash and prints the engine's path. If the
engine is already there, it does nothing else. A running service picks up the engine
within 10 minutes, or when you restart it.`,
		Example: `  # Install the engine for the service of the .deb or .rpm package
  lumenhook install-clickhouse --from chdb.tgz --cache-dir /var/cache/lumenhook`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Progress = cmd.ErrOrStderr()
			path, err := clickhouse.Ensure(cmd.Context(), opts)
			if err == nil {
				cli.Row(cmd.OutOrStdout(), path)
			}
			return err
		},
	}
	c.Flags().StringVar(&opts.Archive, "from", "", "package of the engine, as a .tgz file")
	c.Flags().StringVar(&opts.CacheDir, "cache-dir", "",
		"folder to install the engine in (default lumenhook in your cache folder)")
	return c
}

func newMan() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "man --to FOLDER",
		Short: "Generate man pages for all commands",
		Long: `Write a section 1 man page for each command with the same text as --help. To make the
pages available to man, write them to a man1 folder in your $MANPATH. Release
archives already contain them.`,
		Example: `  # Generate man pages, so that you can run man lumenhook-endpoints-create
  lumenhook man --to ~/.local/share/man/man1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage(errors.New(`--to "": must name a folder`))
			}
			return writeManPages(cmd.Root(), to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "folder to write the pages to; created if it doesn't exist")
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
		Short: "Start an MCP server for AI assistants",
		Long: `Start a Model Context Protocol (MCP) server on standard input and output. With it, an
assistant can read endpoints, watches, events, wallet statements and ledger coverage.
It can also explain an event's attempts, find stuck deliveries, verify webhook
signatures and read the documentation. The server doesn't change anything, and
requires an API key with the read permission.

Add this JSON to your assistant's configuration.

  {"mcpServers": {"lumenhook": {
    "command": "lumenhook",
    "args": ["mcp", "--api-url", "https://api.shop.example"],
    "env": {"LUMENHOOK_API_KEY": "…"}}}}

On the machine where "lumenhook run" runs, you only need "args": ["mcp",
"--data-dir", "/full/path/.lumenhook"]. The server stops when its standard input is
closed, or when it receives a line that is invalid or longer than 1 MiB.`,
		Example: `  # Start the server the way an assistant does, but without any input
  lumenhook mcp --secret-file hook.secret < /dev/null`,
		RunE: m.run,
	}
	m.Register(c.Flags())
	m.RegisterAPI(c.Flags())
	c.Flags().StringVar(&m.secretFile, "secret-file", "",
		"file that contains an endpoint's signing secrets, one per line, for verifying webhooks "+
			"(default none)")
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
