package completion

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

// New makes `completion`, which prints a shell's script.
func New() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the script that completes commands, flags, values and ids in a shell",
		Long: `Prints the script for bash, zsh, fish or powershell. With it, the shell completes commands
and flags, the values that a flag takes (states, event types, networks, roles, tables), and
the ids of endpoints, watches, events and keys of the service that the command would ask:
that of --data-dir or --api-url, or of their variables. A service that does not answer
within a second completes nothing. Packages and archives of a release contain the scripts
in the folder completions.

Bash without the package bash-completion: add the first example's line to ~/.bashrc.`,
		Example: `  # In this shell, from now on
  source <(lumenhook completion bash)

  # bash, in every new shell, with the package bash-completion
  mkdir -p ~/.local/share/bash-completion/completions
  lumenhook completion bash > ~/.local/share/bash-completion/completions/lumenhook

  # zsh, in every new shell
  mkdir -p ~/.zfunc
  lumenhook completion zsh > ~/.zfunc/_lumenhook
  echo 'fpath+=~/.zfunc; autoload -Uz compinit; compinit' >> ~/.zshrc

  # fish, in every new shell
  mkdir -p ~/.config/fish/completions
  lumenhook completion fish > ~/.config/fish/completions/lumenhook.fish

  # PowerShell: a file for your profile to run
  lumenhook completion powershell > lumenhook.ps1`,
		RunE: func(c *cobra.Command, args []string) error {
			root, w := c.Root(), c.OutOrStdout()
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(w, true); err != nil {
					return err
				}
				_, err := io.WriteString(w, withoutPackage)
				return err
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return cli.Usage(fmt.Errorf("unknown shell %q: must be one of %s", args[0],
				strings.Join(shells, ", ")))
		},
	}
}

// withoutPackage takes the place of a function of cobra's script, which calls one of the
// package bash-completion: without the package, words are those of the line up to the cursor.
// Bash itself also splits them at = and :, which some values contain.
const withoutPackage = `
__lumenhook_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then
        words+=("")
    fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword - 1]}
}
`
