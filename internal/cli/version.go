package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker (Makefile: -ldflags "-X …"). If empty, the compiler's build information is
// used.
var version, commit, date, modified string

// Build is the program's build information.
type Build struct {
	Version  string `json:"version"`  // the release's tag, or "devel"
	Commit   string `json:"commit"`   // "unknown" if not built in a checkout
	Date     string `json:"date"`     // of the commit, RFC 3339
	Modified bool   `json:"modified"` // built with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild returns the running program's build information.
func ThisBuild() Build {
	b := Build{
		Version:  "devel",
		Commit:   "unknown",
		Date:     "unknown",
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	set := func(to *string, values ...string) {
		for _, value := range values {
			if value != "" && value != "(devel)" {
				*to = value
				return
			}
		}
	}
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		settings["version"] = info.Main.Version
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	set(&b.Version, version, settings["version"])
	set(&b.Commit, commit, settings["vcs.revision"])
	set(&b.Date, date, settings["vcs.time"])
	b.Modified = modified == "true" || settings["vcs.modified"] == "true"
	return b
}

func (b Build) String() string {
	changed := ""
	if b.Modified {
		changed = ", modified"
	}
	return fmt.Sprintf("%s (commit %s of %s%s, %s, %s)", b.Version, b.Commit[:min(len(b.Commit), 12)],
		b.Date, changed, b.Go, b.Platform)
}

// NewVersion returns the version command.
func NewVersion() *cobra.Command {
	var o Output
	c := &cobra.Command{
		Use:   "version",
		Short: "Show version and build information",
		Example: `  # For a bug report
  lumenhook version

  # For a script
  lumenhook version --field version`,
		RunE: func(c *cobra.Command, _ []string) error {
			b := ThisBuild()
			return o.Print(c.OutOrStdout(), b, func(w io.Writer) {
				fmt.Fprintf(w, "version\t%s\ncommit\t%s\ndate\t%s\nmodified\t%t\ngo\t%s\nplatform\t%s\n",
					b.Version, b.Commit, b.Date, b.Modified, b.Go, b.Platform)
			})
		},
	}
	o.Register(c.Flags())
	return c
}
