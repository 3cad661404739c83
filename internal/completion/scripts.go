package completion

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// New makes `completion`, the group of the scripts.
func New() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion",
		Short: "Print the script that has a shell complete commands, flags, values and ids",
		Long: `Prints a script for a shell. With it the shell completes commands and flags, the values
that a flag takes (states, event types, networks, roles, tables), and the ids of endpoints,
watches, events and keys of the service that the command would ask: that of --data-dir or
--api-url, or of their variables. A service that does not answer within a second completes
nothing.

In this shell only: source <(lumenhook completion bash). For good, the help of each shell
says where its script belongs; packages and archives of a release have the scripts in the
folder completions.`,
		Example: `  # In this shell, from now on
  source <(lumenhook completion bash)`,
	}
	c.AddCommand(
		script("bash", `Put it where bash looks for it, with the package bash-completion:

  lumenhook completion bash > ~/.local/share/bash-completion/completions/lumenhook

Without that package, add this line to ~/.bashrc:

  source <(lumenhook completion bash)`, `  # For good, with the package bash-completion
  mkdir -p ~/.local/share/bash-completion/completions
  lumenhook completion bash > ~/.local/share/bash-completion/completions/lumenhook`, writeBash),
		script("zsh", `Put it into a folder of $fpath, as _lumenhook, and have ~/.zshrc begin completion:

  mkdir -p ~/.zfunc
  lumenhook completion zsh > ~/.zfunc/_lumenhook
  echo 'fpath+=~/.zfunc; autoload -Uz compinit; compinit' >> ~/.zshrc`,
			`  # For good, where ~/.zfunc is in $fpath
  mkdir -p ~/.zfunc
  lumenhook completion zsh > ~/.zfunc/_lumenhook`, writeZsh),
		script("fish", "Put it where fish looks for it; new shells have it at once.",
			`  # For good
  mkdir -p ~/.config/fish/completions
  lumenhook completion fish > ~/.config/fish/completions/lumenhook.fish`, writeFish),
		script("powershell", `Run it at the start of a shell, from the file that $PROFILE names:

  lumenhook completion powershell | Out-String | Invoke-Expression`,
			`  # Into a file, which the profile runs
  lumenhook completion powershell > lumenhook.ps1`, writePowerShell),
	)
	return c
}

func script(
	shell, install, example string, write func(*cobra.Command, io.Writer) error,
) *cobra.Command {
	return &cobra.Command{
		Use:     shell,
		Short:   "Print the script for " + shell,
		Long:    "Prints the script for " + shell + ".\n\n" + install,
		Example: example,
		Args:    cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return write(c.Root(), c.OutOrStdout())
		},
	}
}

// withoutPackage takes the place of a function of cobra's script, which calls one of the
// package bash-completion: without the package, words are those of the line up to the cursor.
// Bash itself also splits them at = and :, of which values have some.
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

func writeBash(root *cobra.Command, w io.Writer) error {
	if err := root.GenBashCompletionV2(w, true); err != nil {
		return err
	}
	_, err := io.WriteString(w, withoutPackage)
	return err
}

func writeZsh(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) }

func writeFish(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }

func writePowerShell(root *cobra.Command, w io.Writer) error {
	return root.GenPowerShellCompletionWithDesc(w)
}
