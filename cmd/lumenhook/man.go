package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/lumenhook/lumenhook/internal/cli"
)

func newMan() *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "man --to FOLDER",
		Short: "Write a man page for each command",
		Long: `Writes a page of section 1 for each command into a folder, made of what --help shows. A
folder man1 below one of $MANPATH is where man finds them. Archives of a release have them.`,
		Example: `  # Then: man lumenhook-endpoints-create
  lumenhook man --to ~/.local/share/man/man1`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage(errors.New(`--to "": must name a folder`))
			}
			return writeManPages(cmd.Root(), to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "folder to write; it is made if it is not there")
	_ = c.MarkFlagRequired("to")
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
