package completion

import (
	"context"
	_ "embed"
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
	// usageStart is how many words of a flag's usage can say that its value is a file or a folder.
	usageStart = 8
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
	switch values := cli.Values(f); {
	case len(values) > 0:
		return fixed(values)
	case f.Value.Type() == "time":
		return fixed([]string{"1h", "24h", "168h"})
	case f.Name == "endpoint", f.Name == "watch":
		return ids[strings.ToUpper(f.Name)+"_ID"]
	case f.Name == "wallet", f.Name == "to" && c.Name() == "pay":
		return offer(wallets)
	case names(f, "folder"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case names(f, "file"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	}
	return cobra.NoFileCompletions
}

// names reports whether the usage of a flag starts with something like "PEM file with".
func names(f *pflag.Flag, what string) bool {
	words := strings.Fields(f.Usage)
	return slices.ContainsFunc(words[:min(len(words), usageStart)], func(word string) bool {
		return strings.Trim(word, ",;:") == what
	})
}

// ids completes the ids in use lines.
var ids = map[string]cobra.CompletionFunc{
	apicli.Endpoints.ID: offer(apicli.Endpoints),
	apicli.Watches.ID:   offer(apicli.Watches),
	apicli.Events.ID:    offer(apicli.Events),
	apicli.Keys.ID:      offer(apicli.Keys),
}

func argumentOf(c *cobra.Command) cobra.CompletionFunc {
	word := strings.Trim(strings.Fields(c.Use + " -")[1], "[]")
	complete := cobra.NoFileCompletions
	switch {
	case word == "FILE":
		return nil // the shell completes files
	case word == "NAME" && c.Parent().Name() == "topics":
		var names []string
		for _, topic := range schemas.Topics() {
			names = append(names, topic.Name)
		}
		complete = fixed(names)
	case word == "SHELL":
		complete = fixed(shellNames)
	case word == apicli.Keys.ID && c.Parent().Name() != apicli.Keys.Name: // a key in a file
	case ids[word] != nil:
		complete = ids[word]
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

// shells has the function that prints the completion script of each shell.
var shells = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash": func(root *cobra.Command, w io.Writer) error {
		err := root.GenBashCompletionV2(w, true)
		if err == nil {
			_, err = io.WriteString(w, bashInit)
		}
		return err
	},
	"zsh": (*cobra.Command).GenZshCompletion,
	"fish": func(root *cobra.Command, w io.Writer) error {
		return root.GenFishCompletion(w, true)
	},
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

var shellNames = []string{"bash", "zsh", "fish", "powershell"}

// Print runs the completion command, which prints a shell's script.
func Print(c *cobra.Command, args []string) error {
	script := shells[args[0]]
	if script == nil {
		return cli.Usage(fmt.Errorf("unknown shell %q: must be one of %s", args[0],
			strings.Join(shellNames, ", ")))
	}
	return script(c.Root(), c.OutOrStdout())
}

// bashInit replaces a function of cobra's script that calls the bash-completion package.
//
//go:embed init.bash
var bashInit string
