package completion

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/schemas"
)

const (
	// askMax bounds how long a user who pressed a key waits for a service.
	askMax = time.Second
	// pageMax is how many ids are offered, the newest ones.
	pageMax = 100
	// descriptionMax bounds what is shown of an id, in characters.
	descriptionMax = 60
)

// Flags that name files and folders, by their names, or by their commands' and theirs.
var (
	files = []string{
		"config", "body", "webhook", "egress-ca", "api-tls-cert", "api-tls-key", "secret-out",
		"events pull to",
	}
	folders = []string{
		"data-dir", "secrets-dir", "scratch", "ledger-lake", "man to", "backup to",
		"restore from", "devnet cert out",
	}
)

// words describe values.
var words = map[string]string{
	"QUEUED": "its first attempt is due", "WAITING": "an attempt failed, and another is due",
	"DELIVERED": "the receiver has taken it", "FAILED": "no attempt is left; it can be replayed",
	"CANCELLED": "its endpoint was deleted", "disabled": "nothing is sent, and events wait",
	"payment.received": "a watch has taken a payment",
	"payment.rejected": "a watch has not taken one, and why", "test.ping": "a test of an endpoint",
	"endpoint.failing":  "another endpoint takes nothing",
	"endpoint.disabled": "another endpoint was disabled",
	"read":              "look at everything", "write": "create, change, delete, rotate",
	"operate": "test, enable, disable, replay, resend", "pubnet": "Stellar's public network",
	"testnet": "Stellar's test network", "rpc": "a Stellar RPC server", "lake": "exported ledgers",
	"XLM": "lumens; others are CODE:ISSUER", "exact:": "this amount", "min:": "this amount or more",
	"max:": "this amount or less", "range:": "from one to another", "text:": "this text",
	"id:": "this number", "hash:": "64 hex digits", "503": "the receiver's proxy answers so",
	"timeout": "its answer is not heard", "reset": "the connection breaks off",
	"wallet": "events of a wallet one after another",
}

// Register gives every flag, and every argument, of a tree of commands its completion.
func Register(root *cobra.Command) {
	for _, c := range root.Commands() {
		Register(c)
	}
	if root.ValidArgsFunction == nil && !root.HasSubCommands() {
		root.ValidArgsFunction = argumentOf(root)
	}
	for _, flags := range []*pflag.FlagSet{root.Flags(), root.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			complete := valueOf(root, f)
			if f.Value.Type() == "stringSlice" {
				complete = eachOf(complete)
			}
			// It fails only for a flag that is not there, or has a function already, which counts.
			_ = root.RegisterFlagCompletionFunc(f.Name, complete)
		})
	}
}

// valueOf returns the completion of a flag's value.
func valueOf(c *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	name := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") + " " + f.Name
	is := func(names []string) bool {
		return slices.Contains(names, name) || slices.Contains(names, f.Name)
	}
	switch values := cli.Values(f); {
	case len(values) > 0:
		return fixed(values)
	case f.Value.Type() == "time":
		return fixed([]string{"1h", "24h", "168h"})
	case f.Name == "endpoint":
		return offer(apicli.Endpoints)
	case f.Name == "watch":
		return offer(apicli.Watches)
	case f.Name == "wallet", name == "devnet pay to":
		return offer(wallets)
	case is(folders):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case is(files), strings.HasSuffix(f.Name, "-file"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

// argumentOf returns the completion of the argument that a command's use line names.
func argumentOf(c *cobra.Command) cobra.CompletionFunc {
	complete, use := cobra.NoFileCompletions, strings.Fields(c.Use+" -")
	switch word := strings.Trim(use[1], "[]"); {
	case word == "FILE":
		return nil // the shell completes files
	case word == "NAME" && c.Parent().Name() == "topics":
		var names []string
		for _, topic := range schemas.Topics() {
			names = append(names, topic.Name)
		}
		complete = fixed(names)
	case word == "SHELL":
		complete = fixed(shells)
	case word == apicli.Endpoints.ID:
		complete = offer(apicli.Endpoints)
	case word == apicli.Watches.ID:
		complete = offer(apicli.Watches)
	case word == apicli.Events.ID:
		complete = offer(apicli.Events)
	case word == apicli.Keys.ID && c.Parent().Name() == "keys": // not of a file of keys
		complete = offer(apicli.Keys)
	}
	return func(c *cobra.Command, args []string, word string) (
		[]cobra.Completion, cobra.ShellCompDirective,
	) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(c, args, word)
	}
}

// fixed completes values, with what they mean. A space does not follow a value that ends with a
// colon.
func fixed(values []string) cobra.CompletionFunc {
	directive := cobra.ShellCompDirectiveNoFileComp
	var list []cobra.Completion
	for _, value := range values {
		if strings.HasSuffix(value, ":") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		if what := words[value]; what != "" {
			value = cobra.CompletionWithDesc(value, what)
		}
		list = append(list, value)
	}
	return cobra.FixedCompletions(list, directive)
}

// eachOf completes the last of several values with commas between them, by those that are not
// among them.
func eachOf(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, word string) (
		[]cobra.Completion, cobra.ShellCompDirective,
	) {
		list, directive := complete(c, args, word)
		before := word[:strings.LastIndex(word, ",")+1]
		var more []cobra.Completion
		for _, one := range list {
			if value, _, _ := strings.Cut(one, "\t"); !slices.Contains(strings.Split(before, ","), value) {
				more = append(more, before+one)
			}
		}
		return more, directive
	}
}

// wallets are the wallets that are watched.
var wallets = func() apicli.Resource[client.Watch, client.WatchFilter] {
	of := apicli.Watches
	of.Offer = func(w client.Watch) (string, []string) { return w.WalletAddress, []string{w.Label} }
	return of
}()

// offer completes ids of the service that the line is about: that of its flags, of their variables,
// or of the data folder.
func offer[T, F any](r apicli.Resource[T, F]) cobra.CompletionFunc {
	return func(c *cobra.Command, _ []string, _ string) (
		list []cobra.Completion, _ cobra.ShellCompDirective,
	) {
		ctx, cancel := context.WithTimeout(c.Context(), askMax)
		defer cancel()
		var none F
		var found client.List[T]
		api, err := serviceOf(c.Flags())
		if err == nil {
			found, err = r.List(api, ctx, none, client.Page{Limit: pageMax})
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, one := range found.Data {
			id, about := r.Offer(one)
			about = strings.Fields(cli.OneLine(strings.Join(about, " ")))
			text := []rune(strings.Join(about, " "))
			id = cobra.CompletionWithDesc(id, string(text[:min(len(text), descriptionMax)]))
			list = append(list, id)
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// serviceOf connects as the command itself would.
func serviceOf(given *pflag.FlagSet) (*client.Client, error) {
	var s config.Service
	flags := pflag.NewFlagSet("completion", pflag.ContinueOnError)
	s.Register(flags)
	s.RegisterAPI(flags)
	given.Visit(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) != nil && f.Value.Type() == "string" {
			_ = flags.Set(f.Name, f.Value.String())
		}
	})
	if err := cli.FromEnvironment(flags); err != nil {
		return nil, err
	}
	return s.API()
}

var shells = []string{"bash", "zsh", "fish", "powershell"}

// New makes `completion`, which prints a shell's script.
func New() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the script that completes commands, flags, values and ids in a shell",
		Long: `Prints the script for bash, zsh, fish or powershell. With it, the shell completes commands,
flags, and the values of flags (states, event types, networks, roles, tables). It also
completes the ids of endpoints, watches, events and keys. It asks the service of --data-dir
or --api-url, or of their variables, for at most a second. Packages and archives of a
release contain the scripts in the folder completions.

For bash without the package bash-completion, add the first example's line to ~/.bashrc.`,
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
