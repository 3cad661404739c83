package completion

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
)

const (
	// askMax bounds how long somebody who pressed a key waits for a service.
	askMax = time.Second
	// pageMax is how many ids are offered, the newest ones.
	pageMax = 100
	// descriptionMax bounds what is shown of an id, in characters.
	descriptionMax = 60
)

// ids asks a service for ids.
type ids func(context.Context, *client.Client) ([]cobra.Completion, error)

// flagIDs are flags whose values are ids, wordIDs words of use lines.
var (
	flagIDs = map[string]ids{
		"endpoint": endpointIDs, "watch": watchIDs, "wallet": wallets,
		"devnet pay to": wallets,
	}
	wordIDs = map[string]ids{
		"ENDPOINT_ID": endpointIDs, "WATCH_ID": watchIDs, "EVENT_ID": eventIDs, "KEY_ID": keyIDs,
	}
)

// complete asks the service that the line is about: that of its flags, of their variables, or
// of the data folder.
func (ask ids) complete(c *cobra.Command, _ []string, _ string) (
	[]cobra.Completion, cobra.ShellCompDirective,
) {
	ctx, cancel := context.WithTimeout(c.Context(), askMax)
	defer cancel()
	api, err := serviceOf(c.Flags())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := ask(ctx, api)
	if err != nil {
		list = nil
	}
	return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
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

func endpointIDs(ctx context.Context, api *client.Client) (list []cobra.Completion, err error) {
	found, err := api.ListEndpoints(ctx, client.EndpointFilter{}, client.Page{Limit: pageMax})
	for _, e := range found.Data {
		list = append(list, shown(e.ID, e.Status, e.URL, e.Description))
	}
	return list, err
}

func watchIDs(ctx context.Context, api *client.Client) (list []cobra.Completion, err error) {
	found, err := api.ListWatches(ctx, client.WatchFilter{}, client.Page{Limit: pageMax})
	for _, w := range found.Data {
		list = append(list, shown(w.ID, w.Status, w.Label, w.WalletAddress))
	}
	return list, err
}

// wallets are those that are watched.
func wallets(ctx context.Context, api *client.Client) (list []cobra.Completion, err error) {
	found, err := api.ListWatches(ctx, client.WatchFilter{}, client.Page{Limit: pageMax})
	seen := make(map[string]bool)
	for _, w := range found.Data {
		if !seen[w.WalletAddress] {
			list = append(list, shown(w.WalletAddress, w.Label))
		}
		seen[w.WalletAddress] = true
	}
	return list, err
}

func eventIDs(ctx context.Context, api *client.Client) (list []cobra.Completion, err error) {
	found, err := api.ListEvents(ctx, client.EventFilter{}, client.Page{Limit: pageMax})
	for _, e := range found.Data {
		var told struct {
			Payment struct{ Amount, Memo string }
		}
		_ = json.Unmarshal(e.Data, &told) // an event of another form is shown without
		list = append(list, shown(e.ID, e.Delivery.State, e.Type, told.Payment.Amount,
			told.Payment.Memo))
	}
	return list, err
}

func keyIDs(ctx context.Context, api *client.Client) (list []cobra.Completion, err error) {
	found, err := api.ListKeys(ctx, client.Page{Limit: pageMax})
	for _, k := range found.Data {
		list = append(list, shown(k.ID, strings.Join(k.Permissions, ","), k.Name))
	}
	return list, err
}

// shown is an id with words about it, which somebody else may have written.
func shown(id string, about ...string) cobra.Completion {
	about = strings.Fields(cli.OneLine(strings.Join(about, " ")))
	text := []rune(strings.Join(about, " "))
	return cobra.CompletionWithDesc(id, string(text[:min(len(text), descriptionMax)]))
}
