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
	// askMax bounds how long a user waits for the service after pressing a key.
	askMax = time.Second
	// pageMax is how many of the newest ids are offered.
	pageMax = 100
	// descriptionMax bounds the description of an id, in characters.
	descriptionMax = 60
)

// Flags for files and folders, by flag name or by command and flag name.
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

var words = map[string]string{
	"QUEUED": "waiting for the first attempt", "WAITING": "waiting for another attempt",
	"DELIVERED": "accepted by the receiver", "FAILED": "no attempts left; can be replayed",
	"CANCELLED": "the endpoint was deleted", "disabled": "nothing is sent; events wait",
	"payment.received": "a payment matched a watch",
	"payment.rejected": "a payment failed a watch's rules", "test.ping": "a test of an endpoint",
	"endpoint.failing":  "another endpoint is failing",
	"endpoint.disabled": "another endpoint was disabled",
	"read":              "read everything", "write": "create, change, delete, rotate",
	"operate": "test, enable, disable, replay, resend", "pubnet": "Stellar's public network",
	"testnet": "Stellar's test network", "rpc": "a Stellar RPC server", "lake": "exported ledgers",
	"XLM": "lumens; others are CODE:ISSUER", "exact:": "this amount", "min:": "this amount or more",
	"max:": "this amount or less", "range:": "from one to another", "text:": "this text",
	"id:": "this number", "hash:": "64 hex digits", "503": "a response from the receiver's proxy",
	"timeout": "the response is lost", "reset": "the connection breaks",
	"wallet": "a wallet's events in order",
}

// Register adds completion for every flag and argument in a tree of commands.
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
			// It fails only if the flag does not exist or already has a function, which takes
			// precedence.
			_ = root.RegisterFlagCompletionFunc(f.Name, complete)
		})
	}
}

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
	case word == apicli.Keys.ID && c.Parent().Name() == "keys": // not a key in a key file
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

// fixed completes the values and their descriptions. No space follows a value that ends with a
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

// eachOf completes the last value of a comma-separated list, and omits values already in the list.
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

var wallets = func() apicli.Resource[client.Watch, client.WatchFilter] {
	of := apicli.Watches
	of.Offer = func(w client.Watch) (string, []string) { return w.WalletAddress, []string{w.Label} }
	return of
}()

// offer completes ids from the service that the command line addresses with flags, variables or the
// data folder.
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

// serviceOf returns a client for the service that the command itself would use.
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

// New returns the completion command, which prints a shell's script.
func New() *cobra.Command {
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a shell completion script for commands, flags, values and ids",
		Long: `Prints the completion script for bash, zsh, fish or powershell. With the script, the shell
completes commands, flags, and flag values (states, event types, networks, roles, tables).
It also completes the ids of endpoints, watches, events and keys. To complete ids, it
queries the service for at most a second. The service comes from --data-dir or --api-url,
or from their variables. Release packages and archives contain the scripts in the
completions folder.

To use bash without the bash-completion package, add the first example to ~/.bashrc.`,
		Example: `  # For the current shell
  source <(lumenhook completion bash)

  # For every new bash shell, with the bash-completion package
  mkdir -p ~/.local/share/bash-completion/completions
  lumenhook completion bash > ~/.local/share/bash-completion/completions/lumenhook

  # For every new zsh shell
  mkdir -p ~/.zfunc
  lumenhook completion zsh > ~/.zfunc/_lumenhook
  echo 'fpath+=~/.zfunc; autoload -Uz compinit; compinit' >> ~/.zshrc

  # For every new fish shell
  mkdir -p ~/.config/fish/completions
  lumenhook completion fish > ~/.config/fish/completions/lumenhook.fish

  # For PowerShell: run the file in your profile
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

// withoutPackage replaces a function of cobra's script that calls the bash-completion package.
// Without the package, it splits the line up to the cursor at spaces. Bash itself also splits it at
// = and :, which occur in some values.
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
