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
	c := newCommand("health", func(cmd *cobra.Command, _ []string) error {
		health, err := asked.Ask(cmd.Context())
		if err != nil {
			return err
		}
		err = out.Print(cmd.OutOrStdout(), health, func(w io.Writer) { showHealth(w, health) })
		if err != nil {
			return err
		}
		return health.Fault()
	})
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
	c := newCommand("doctor", func(cmd *cobra.Command, _ []string) error {
		cfg, err := asked.Config()
		if err != nil {
			return err
		}
		return examine(cmd, &out, cfg)
	})
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
	if fault == nil && !out.JSON && out.Field == "" {
		fmt.Fprintf(w, "no problems (checks: %d, warnings: %d)\n", len(report.Checks), report.Warnings())
	}
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

func newConfigCheck() *cobra.Command {
	var s server.Flags
	var out cli.Output
	c := newCommand("config check", func(cmd *cobra.Command, _ []string) error {
		settings := cli.Effective(cmd.Flags())
		shown := out.Print(cmd.OutOrStdout(), settings, func(w io.Writer) {
			cli.Row(w, "SETTING", "VALUE", "FROM")
			for _, one := range settings {
				cli.Row(w, one.Name, one.Value, one.From)
			}
		})
		return errors.Join(cli.Usage(s.Check()), shown)
	})
	s.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func newInstallClickHouse() *cobra.Command {
	var opts clickhouse.Options
	c := newCommand("install-clickhouse", func(cmd *cobra.Command, _ []string) error {
		opts.Progress = cmd.ErrOrStderr()
		path, err := clickhouse.Ensure(cmd.Context(), opts)
		if err == nil {
			cli.Row(cmd.OutOrStdout(), path)
		}
		return err
	})
	c.Long = fmt.Sprintf(c.Long, clickhouse.NPMPackage())
	c.Flags().StringVar(&opts.Archive, "from", "", "package of the engine, as a .tgz file")
	c.Flags().StringVar(&opts.CacheDir, "cache-dir", "",
		"folder to install the engine in (default lumenhook in your cache folder)")
	return c
}

func newMan() *cobra.Command {
	var to string
	c := newCommand("man", func(cmd *cobra.Command, _ []string) error {
		if to == "" {
			return cli.Usage(errors.New(`--to "": must name a folder`))
		}
		return writeManPages(cmd.Root(), to)
	})
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
	c := newCommand("mcp", m.run)
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
