package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// reached is the service that a command connects to.
type reached int

const (
	nothing reached = iota
	theAPI
	theBrokers
	theHistory
	aFolder // the folder of a service, without calling it, or its development network
)

type faultsOf struct {
	asks   reached
	args   []string
	faults [][]string // each: the message, and arguments after args that cause it, with exit code 2
	// refused is the error of the running service, or of the program, for args, with exit code 1.
	refused string
}

const (
	noEndpoint = "ep_00000000000000000000000000"
	noWatch    = "wat_00000000000000000000000000"
	noEvent    = "evt_00000000000000000000000000"
	noKey      = "key_00000000000000000000000000"
	noAccount  = "acc_00000000000000000000000000"
	aWallet    = "GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ"
)

var (
	badSince = []string{`--since "x": must be a time`, "--since", "x"}
	aFuture  = []string{`--since "2999-01-01T00:00:00Z": is in the future`,
		"--since", "2999-01-01T00:00:00Z"}
	badLimit = []string{"--limit 0: must be from 1 to 250", "--limit", "0"}
	badState = []string{`--state "DELIVRED": must be one of QUEUED, WAITING,`, "--state", "DELIVRED"}
	badTable = []string{`--table "x": must be one of payments,`, "--table", "x"}
	badDSN   = []string{"--clickhouse-dsn: must be like", "--clickhouse-dsn", "x"}
	badShop  = []string{
		"that another flag also sets", "--clickhouse-dsn", "clickhouse://x:9000/x?password=b",
		"--clickhouse-password", "a",
	}
	badCursor = []string{"--cursor: ", "--cursor", "x"}
	badFrom   = []string{`--from "x": must be start, end,`, "--from", "x"}
	badType   = []string{
		`--type "AtemptMade": no record is of this type; did you mean AttemptMade?`,
		"--type", "AtemptMade",
	}
	noType  = []string{`--type "Nope": no record is of this type`, "--type", "Nope"}
	tooFew  = []string{"--limit -1: must not be negative", "--limit", "-1"}
	badKind = []string{`--permission "x": must be read, write or operate`, "--permission", "x"}
)

var commandFaults = map[string]faultsOf{
	"accounts create": {asks: theBrokers, args: []string{"--email", "a@b.example"},
		faults: [][]string{badKind, {`--email "x": must be an address`, "--email", "x"}}},
	"accounts list": {asks: theBrokers},
	"accounts get":  {asks: theAPI},
	"accounts update": {asks: theBrokers, args: []string{"--account", noAccount, "--email",
		"a@b.example"},
		faults: [][]string{{`--email "x": must be an address`, "--email", "x"},
			{`--email "a@b.example": is given twice`, "--email", "a@b.example"}},
		refused: "there is no such account"},
	"keys create": {asks: theBrokers, args: []string{"--account", noAccount, "--permission", "read"},
		faults:  [][]string{badKind, {`--account "x": must be acc_`, "--account", "x"}},
		refused: "there is no such account"},
	"keys list":   {asks: theAPI, faults: [][]string{badLimit}},
	"keys revoke": {asks: theAPI, args: []string{noKey}, refused: "There is no such key: " + noKey},
	"keys roll":   {asks: theAPI, args: []string{noKey}, refused: "There is no such key: " + noKey},
	"portal link": {asks: theAPI, args: []string{"--permission", "read"},
		faults: [][]string{
			badKind,
			{`--expires-in "5s": must be a time from 1m to 24h`, "--expires-in", "5s"},
			{`--expires-in "25h": must be a time from 1m to 24h`, "--expires-in", "25h"},
			{`--expires-in "99999999h": must be a time from 1m to 24h`, "--expires-in", "99999999h"},
		}},
	"endpoints create": {
		asks: theAPI,
		args: []string{"--url", "https://10.0.0.1/"},
		faults: [][]string{
			{
				"--description has no value and is followed by --secret-out",
				"--description", "--secret-out", "x",
			},
			{`--header "x": must be Name: value`, "--header", "x"},
			{"--url: must begin with https://", "--url", "http://x"},
			{"--field secret and --secret-out exclude each other", "--field", "secret",
				"--secret-out", "/nowhere/secret"},
		},
		refused: "--url: ",
	},
	"endpoints list": {asks: theAPI, faults: [][]string{badLimit}},
	"endpoints get": {
		asks:    theAPI,
		args:    []string{noEndpoint},
		refused: "no endpoint with this id: " + noEndpoint,
	},
	"endpoints history": {
		asks:    theAPI,
		args:    []string{noEndpoint},
		faults:  [][]string{{"--limit 51: must be from 1 to 50", "--limit", "51"}},
		refused: "no endpoint with this id: " + noEndpoint,
	},
	"events history": {
		asks:    theAPI,
		args:    []string{noEvent},
		faults:  [][]string{{"--limit 51: must be from 1 to 50", "--limit", "51"}},
		refused: "no event with this id: " + noEvent,
	},
	"endpoints delete": {
		asks:    theAPI,
		args:    []string{noEndpoint},
		refused: "no such endpoint: " + noEndpoint,
	},
	"endpoints enable": {
		asks:    theAPI,
		args:    []string{noEndpoint},
		refused: "no such endpoint: " + noEndpoint,
	},
	"endpoints disable": {
		asks:    theAPI,
		args:    []string{noEndpoint},
		refused: "no such endpoint: " + noEndpoint,
	},
	"endpoints test": {
		asks:    theAPI,
		args:    []string{noEndpoint},
		refused: "no such endpoint: " + noEndpoint,
	},
	"endpoints replay": {asks: theAPI, args: []string{noEndpoint, "--since", "1h"},
		faults: [][]string{badSince}, refused: "no such endpoint: " + noEndpoint},
	"endpoints rotate-secret": {asks: theAPI, args: []string{noEndpoint},
		refused: "no such endpoint: " + noEndpoint},
	"endpoints rotate-signing-key": {asks: theAPI, args: []string{noEndpoint},
		refused: "no such endpoint: " + noEndpoint},
	"endpoints update": {asks: theAPI, args: []string{noEndpoint, "--description", "x"},
		refused: "no such endpoint: " + noEndpoint},
	"watches create": {asks: theAPI, args: []string{"--wallet", aWallet, "--endpoint", noEndpoint},
		faults: [][]string{
			{`--amount "x": must be any, exact:12.5,`, "--amount", "x"},
			{`--asset "USDC": must be XLM or CODE:ISSUER, where ISSUER is`, "--asset", "XLM,USDC"},
		},
		refused: "--endpoint: names no endpoint of your account: " + noEndpoint + "; `lumenhook"},
	"watches list": {asks: theAPI, faults: [][]string{badLimit}},
	"watches get": {
		asks:    theAPI,
		args:    []string{noWatch},
		refused: "no watch with this id: " + noWatch,
	},
	"watches history": {
		asks:    theAPI,
		args:    []string{noWatch},
		faults:  [][]string{{"--limit 51: must be from 1 to 50", "--limit", "51"}},
		refused: "no watch with this id: " + noWatch,
	},
	"watches delete": {asks: theAPI, args: []string{noWatch}, refused: "no such watch: " + noWatch},
	"watches update": {asks: theAPI, args: []string{noWatch, "--label", "x"},
		faults:  [][]string{{`--memo "x": must be any, present,`, "--memo", "x"}},
		refused: "no such watch: " + noWatch},
	"watches check": {asks: theAPI, args: []string{noWatch, "--amount", "1"},
		faults:  [][]string{{`--memo "x": must be text:…, id:… or hash:…`, "--memo", "x"}},
		refused: "no watch with this id: " + noWatch},
	"coverage": {asks: theAPI},
	"statement": {
		asks: theAPI,
		args: []string{"--wallet", aWallet},
		faults: [][]string{
			{"--wallet: must be an account's address: 56 characters", "--wallet", "GXXX"},
			{`--from "x": must be a ledger from 1`, "--from", "x"},
			{`--to "0": must be a ledger from 1`, "--to", "0"},
			{"--asset: must be XLM, a code and its issuer", "--asset", "x"},
			{"--csv: is another form than --json", "--csv", "--json"},
		},
		refused: "Your account has no active watch of this wallet",
	},
	"reconcile": {
		asks: theAPI,
		args: []string{"--wallet", aWallet},
		faults: [][]string{
			{"--wallet: must be an account's address: 56 characters", "--wallet", "GXXX"},
			{"--stellar-rpc-url: must be like", "--stellar-rpc-url", "x"},
			{`--network "pubnet": the service follows another`, "--network", "pubnet"},
			{"--timeout 0s: must be from 1s to 10m0s", "--timeout", "0s"},
			{"--asset: must be XLM, a code and its issuer", "--asset", "x"},
		},
		refused: "Your account has no active watch of this wallet",
	},
	"events list": {asks: theAPI, faults: [][]string{
		badLimit, badSince, badState, badCursor, {"--tx: must be a transaction's hash", "--tx", "x"},
		{"--payment: must be a payment's id", "--payment", "x"},
		{"--min-amount", "--min-amount", "x"},
		{"--max-amount: must not be less than --min-amount", "--min-amount", "5", "--max-amount", "3"},
		{"--asset: must be XLM", "--asset", "USD"},
	}},
	"explain": {asks: theAPI, args: []string{strings.Repeat("ab", 32)}},
	"events get": {
		asks:    theAPI,
		args:    []string{noEvent},
		refused: "no event with this id: " + noEvent,
	},
	"events receipt": {
		asks: theAPI,
		args: []string{noEvent},
		faults: [][]string{
			{"--attempt and --earlier-size: must be numbers", "--attempt", "-1"},
			{"--out: writes the receipt as it is", "--out", "x", "--json"},
		},
		refused: "no event with this id: " + noEvent,
	},
	"events pull": {
		asks: theAPI,
		args: []string{"--endpoint", noEndpoint},
		faults: [][]string{
			{"--after -1: must be a number from 0 on", "--after", "-1"},
			{"--field: events are pulled as whole lines", "--field", "id"},
		},
		refused: "Your account has no endpoint with this id",
	},
	"events tail": {
		asks: theAPI,
		args: []string{"--endpoint", noEndpoint},
		faults: [][]string{
			badSince, badState, aFuture,
			{"--field: events are shown as whole lines", "--field", "id"},
			{"--asset: must be XLM", "--asset", "USD"},
			{`--type "x": must be one of payment.received,`, "--type", "x"},
		},
		refused: "Your account has no endpoint with this id: " + noEndpoint,
	},
	"trigger": {
		args: []string{"--to", "http://127.0.0.1:1", "--secret-file", "/nowhere"},
		faults: [][]string{
			{`--to "x": must be a URL such as`, "--to", "x"},
			{"--count 0 --repeat 0: must be from", "--count", "0"},
			{`unknown flag --memo-text for "lumenhook trigger"; did you mean --memo?`, "--memo-text", "x"},
			{"the argument is empty; is the shell variable", ""},
			{`unknown type "payment.lost"`, "payment.lost"},
			{"--field: posts are shown as whole lines", "--field", "id"},
			{"/nowhere: no such file"},
		},
	},
	"listen": {
		asks: theAPI,
		args: []string{"--endpoint", noEndpoint},
		faults: [][]string{
			badSince, aFuture,
			{`--events "bogus": must be one of payment.received, payment.rejected, test.ping,`,
				"--events", "payment.received,bogus"},
			{"--field: events are shown as whole lines", "--field", "id"},
			{`--forward-to "x": must be a URL such as`, "--forward-to", "x"},
			{"--fail and --header are for events that are posted", "--fail", "503"},
			{`--fail: "x": must be a status from 400 to 599, timeout or reset`, "--fail", "x"},
			{`--header "x": must be Name: value`, "--header", "x"},
		},
		refused: "Your account has no endpoint with this id",
	},
	"events resend": {
		asks:    theAPI,
		args:    []string{noEvent},
		refused: "no event with this id: " + noEvent,
		faults: [][]string{
			{": events resend takes an EVENT_ID or filters, and got both", "--since", "24h"},
		},
	},
	"backfill": {asks: theAPI, args: []string{"--watch", noWatch, "--from", "2"},
		faults:  [][]string{{"--from 2 --to 1: must be the sequences", "--to", "1"}},
		refused: "There is no such watch: " + noWatch},
	"sql": {asks: theHistory, args: []string{"SELECT nothing"},
		faults: [][]string{
			badDSN, badShop, {`--format "x": must be one of table, vertical, json, csv, parquet`, "--format", "x"},
		},
		refused: "ClickHouse: "},
	"migrate": {asks: theHistory, faults: [][]string{badDSN, badShop,
		{`--history-retention "x": must be days such as`, "--history-retention", "x"}}},
	"rebuild": {
		asks:   theHistory,
		args:   []string{"--table", "events"},
		faults: [][]string{badTable, badDSN, badShop},
	},
	"verify-projection": {
		asks:   theHistory,
		args:   []string{"--table", "events"},
		faults: [][]string{badTable, badDSN, badShop},
	},
	"topics cat": {
		asks:   theBrokers,
		args:   []string{"journal"},
		faults: [][]string{badFrom, tooFew, badType, noType},
	},
	"topics tail": {
		asks:   theBrokers,
		args:   []string{"journal"},
		faults: [][]string{badFrom, tooFew, badType, noType},
	},
	"topics plan":   {asks: theBrokers},
	"topics create": {asks: theBrokers, args: []string{"--partitions", "4"}},
	"topics check":  {asks: theBrokers},
	"topics copy":   {args: []string{"--kafka-brokers", "127.0.0.1:1"}},
	"backup": {asks: theBrokers, args: []string{"--to", "/nowhere/backup"},
		faults: [][]string{{`--to "": must name a folder`, "--to", ""}}},
	"restore": {
		args: []string{"--from", "/nowhere", "--kafka-brokers", "127.0.0.1:1"},
		faults: [][]string{
			{`--from "": must name the folder of a backup`, "--from", ""}, badDSN, badShop,
		},
		refused: "/nowhere has no manifest.json: it is no backup",
	},
	"repartition": {
		args: []string{"--to", "7", "--to-prefix", "x.", "--kafka-brokers", "127.0.0.1:1"},
		faults: [][]string{
			{"--to 0: must be from 1 to 10000", "--to", "0"},
			{`--to-prefix "lumenhook.": must be another one`, "--to-prefix", "lumenhook."},
			{"neither of it and --topic-prefix", "--to-prefix", "lumenhook.7."},
			badDSN, badShop,
		},
		refused: "no broker can be reached at 127.0.0.1:1",
	},
	"topics acls": {asks: theBrokers, args: []string{"--apply"},
		faults: [][]string{{`unknown role "x" (known: engine,`, "--role", "x"}}},
	"ledger check": {asks: theBrokers, args: []string{"--from", "5", "--to", "6",
		"--stellar-rpc-url", "http://127.0.0.1:1"}, faults: [][]string{
		{"--from 5 --to 4: must be the sequences", "--to", "4"},
		{`--ledger-source "x": must be rpc or lake`, "--ledger-source", "x"},
		{`--trusted-ledger "5": must be a ledger's sequence and the 64 hex`, "--trusted-ledger", "5"},
		{"where --start begins, does not follow it", "--start", "9", "--trusted-ledger",
			"7:" + strings.Repeat("ab", 32)}}},
	"ledger reset": {asks: theBrokers, args: []string{"--stellar-rpc-url", "http://127.0.0.1:1"},
		faults: [][]string{
			{`--ledger-source "x": must be rpc or lake`, "--ledger-source", "x"},
			{`--trusted-ledger "5": must be a ledger's sequence and the 64 hex`, "--trusted-ledger", "5"},
		}},
	"ledger sources": {asks: aFolder, faults: [][]string{
		{`--metrics-listen "x": must be host:port`, "--metrics-listen", "x"},
		{"--timeout 1h0m0s: must be from", "--timeout", "1h"}}},
	"verify": {args: []string{"--secret-file", "/nowhere", "--timestamp", "1", "--signature", "v1="},
		faults:  [][]string{{"leave --timestamp, --signature and --body out", "--webhook", "-"}},
		refused: "/nowhere: no such file"},
	"verify-receipt": {args: []string{"/nowhere", "--keys", "/nowhere"},
		refused: "/nowhere: no such file"},
	"secrets create": {},
	"secrets list":   {},
	"secrets drop":   {args: []string{"1"}},
	"secrets rewrap": {faults: [][]string{
		{"--stage, --key-only and --resume: give one of them", "--stage", "--resume"}}},
	"secrets signing create": {faults: [][]string{
		{"--after -1s: must be from 0s to 2160h0m0s", "--after", "-1s"}}},
	"secrets signing list": {refused: "signing-keys: `lumenhook secrets signing create` makes it"},
	"secrets signing rotate": {faults: [][]string{
		{"--after 1h0m0s: must be from 2h0m0s to 2160h0m0s", "--after", "1h"}}},
	"secrets signing drop": {args: []string{"x"}},
	"devnet account": {
		asks:   aFolder,
		faults: [][]string{{`--asset "x": must be CODE:ISSUER`, "--asset", "x"}},
	},
	"devnet asset": {asks: aFolder, args: []string{"--code", "X"},
		faults: [][]string{{`--code "-": must be 1 to 12 letters`, "--code", "-"}}},
	"devnet pay": {asks: aFolder, args: []string{"--to", aWallet, "--amount", "1"}, faults: [][]string{
		{`--amount "0": must be greater than 0`, "--amount", "0"},
		{`"lumenhook devnet pay"; did you mean --memo-hash, --memo-id or --memo-text?`, "--memo", "x"},
		{`--to "x": must be a Stellar address`, "--to", "x"}},
		refused: "the destination account does not exist"},
	"devnet load": {asks: aFolder, faults: [][]string{
		{"--payments from 1 to 20000", "--payments", "0"},
		{"--fail-ratio from 0 to 1", "--fail-ratio", "2"},
		{"--fail-ratio from 0 to 1", "--fail-ratio", "NaN"}}},
	"devnet cert": {asks: aFolder, args: []string{"--out", "/nowhere/cert"},
		faults: [][]string{{`--out "": must name a folder`, "--out", ""}}},
	"devnet receiver": {asks: aFolder, args: []string{"--secret-file", "/nowhere"},
		faults: [][]string{{`--listen "x": must be host:port`, "--listen", "x"}}},
	"run": {faults: [][]string{badDSN, {`--log-level "x"`, "--log-level", "x"},
		{`--data-dir "": must name a folder`, "--data-dir", ""},
		{`--network: unknown network "mainnet" (known: pubnet, testnet, devnet; or give the passphrase ` +
			"of another); did you mean pubnet?\nSee", "--network", "mainnet"},
		{`--ledger-source "horizon": must be rpc or lake`, "--no-demo", "--network", "testnet",
			"--ledger-source", "horizon"}}},
	"serve": {args: []string{"--roles", "mailer"}, faults: [][]string{badDSN,
		{`unknown role "x" (known: `, "--roles", "x"}}},
	"config check": {args: []string{"--roles", "mailer"}, faults: [][]string{badDSN,
		{`unknown role "x" (known: `, "--roles", "x"}}},
	"health": {asks: aFolder, faults: [][]string{
		{`--metrics-listen "x": must be host:port`, "--metrics-listen", "x"},
		{`--metrics-listen "": must be the address of a running process`, "--metrics-listen", ""},
		{`--metrics-listen "127.0.0.1:0": must be the actual port`, "--metrics-listen", "127.0.0.1:0"},
		{"--timeout 1h0m0s: must be from", "--timeout", "1h"}}},
	// TestDoctorWithoutTheService covers a folder without a service.
	"doctor": {faults: [][]string{badDSN,
		{`--only: unknown check "x" (known: configuration,`, "--only", "x"},
		{"--timeout 1h0m0s: must be from", "--timeout", "1h"},
		{`--roles: unknown role "x"`, "--roles", "x", "--kafka-brokers", "127.0.0.1:1"}}},
	"version": {},
	"man": {args: []string{"--to", "/nowhere/man"},
		faults: [][]string{{`--to "": must name a folder`, "--to", ""}}},
	"install-clickhouse": {args: []string{"--from", "/nowhere/chdb.tgz"}, faults: [][]string{}},
	"mcp":                {asks: theAPI},
	"completion":         {args: []string{"bash"}, faults: [][]string{}},
}

// dialect matches text that doesn't help a user at a terminal.
var dialect = regexp.MustCompile(`dial tcp|connect: |\bEOF\b|%!|<nil>|strconv|&\{|map\[|\[\w+ \w+|` +
	`context (deadline|canceled)|int32|Slice|panic|goroutine|cannot connect.*cannot connect|` +
	`\b(streams|directory|projections|engine|topology|schemas|sealing|client|kgo|kadm): `)

// TestEveryCommandSaysWhatToDo calls every command in every wrong way, and without its service.
// Each error must be in plain words.
func TestEveryCommandSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--ledger-interval", "200ms")
	leaves := make(map[string]*cobra.Command)
	collect(newRoot(), leaves)
	names := slices.Sorted(maps.Keys(leaves))
	if known := slices.Sorted(maps.Keys(commandFaults)); !slices.Equal(known, names) {
		t.Fatalf("the commands are\n%v, and the table of faults has\n%v", names, known)
	}
	// The service delays the refusal of each further wrong key, so these calls run concurrently.
	var missing errgroup.Group
	missing.SetLimit(12)
	for _, name := range names {
		f := commandFaults[name]
		line := append(strings.Fields(name), f.args...)
		misunderstood(t, name, line, leaves[name])
		for _, fault := range f.faults {
			says(t, cli.ExitUsage, fault[0], line, append(fault[1:], inDir(leaves[name], s.dir)...)...)
		}
		missing.Go(func() error {
			s.missed(f, line)
			return nil
		})
		if f.refused != "" {
			says(t, cli.ExitFailure, f.refused, line, inDir(leaves[name], s.dir)...)
		}
	}
	_ = missing.Wait() // s.missed reports failures
	s.interrupt()
}

// collect adds the commands without subcommands to leaves, by name.
func collect(c *cobra.Command, leaves map[string]*cobra.Command) {
	for _, sub := range c.Commands() {
		collect(sub, leaves)
	}
	if !c.HasSubCommands() {
		leaves[strings.TrimPrefix(c.CommandPath(), "lumenhook ")] = c
	}
}

// misunderstood calls a command with flags, arguments, and values that it doesn't accept.
func misunderstood(t testing.TB, name string, line []string, c *cobra.Command) {
	t.Helper()
	says(t, cli.ExitUsage, "unknown flag --no-such-flag", line, "--no-such-flag")
	says(t, cli.ExitUsage, "argument", line, "a", "b")
	c.InheritedFlags() // adds those of its parents to c.Flags
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Value.Type(), "string") {
			says(t, cli.ExitUsage, "--"+flag.Name+" requires a value", line, "--"+flag.Name)
			return
		}
		says(t, cli.ExitUsage, "--"+flag.Name+` "x": must be `, line, "--"+flag.Name+"=x")
	})
}

func inDir(c *cobra.Command, dir string) []string {
	c.InheritedFlags()
	if c.Flags().Lookup("data-dir") == nil || c.Name() == "run" {
		return nil
	}
	return []string{"--data-dir", dir}
}

// missed calls a command where its service is missing, and with a wrong login.
func (s *testService) missed(f faultsOf, line []string) {
	s.t.Helper()
	if f.asks == nothing {
		return
	}
	says(s.t, cli.ExitFailure, "no service has run in", line, "--data-dir",
		filepath.Join(s.dir, "nowhere"))
	const nobody, silent = "127.0.0.1:1", "connection refused; is the service running"
	switch f.asks {
	case theBrokers:
		says(s.t, cli.ExitFailure, "no broker can be reached at "+nobody+": "+silent, line,
			"--kafka-brokers", nobody)
		says(s.t, cli.ExitUsage, `--kafka-brokers "127.0.0.1": must be HOST:PORT`, line,
			"--kafka-brokers", "127.0.0.1")
	case theAPI:
		says(s.t, cli.ExitFailure, silent, line, "--api-url", "http://"+nobody, "--api-key", "x")
		says(s.t, cli.ExitUsage, "--api-url", line, "--api-url", nobody, "--api-key", "x")
		says(s.t, cli.ExitFailure, "the service rejected the API key from --api-key; ", line,
			"--api-url", s.file.APIURL, "--api-key", "x")
	}
}

// says runs a command line in this process and checks its exit code and its error.
func says(t testing.TB, code int, text string, line []string, more ...string) {
	t.Helper()
	args := slices.Concat(line, more)
	root, stderr := newRoot(), bytes.Buffer{}
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := cli.Execute(ctx, cli.Line{Root: root, Args: args, Stderr: &stderr})
	said := stderr.String()
	if got != code || !strings.Contains(said, text) || dialect.MatchString(said) {
		t.Errorf("%q ended with %d, and should end with %d and say %q in plain words:\n%s", args, got,
			code, text, said)
	}
}
