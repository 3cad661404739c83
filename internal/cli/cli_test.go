package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
)

// tree is a small program with commands of every kind.
func tree(did *string) *cobra.Command {
	root := &cobra.Command{Use: "prog", Version: "1"}
	pets := &cobra.Command{Use: "pets", Short: "Pets"}
	list := &cobra.Command{
		Use: "list",
		RunE: func(c *cobra.Command, _ []string) error {
			n, _ := c.Flags().GetInt("limit")
			*did = strings.Repeat("x", n)
			return nil
		},
	}
	list.Flags().Int("limit", 3, "how many")
	list.Flags().Duration("wait", 0, "how long")
	get := &cobra.Command{
		Use: "get PET_ID",
		RunE: func(_ *cobra.Command, args []string) error {
			*did = args[0]
			return errors.New("there is no such pet")
		},
	}
	adopt := &cobra.Command{
		Use:  "adopt",
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	adopt.Flags().String("name", "", "what it is called")
	adopt.Flags().String("kind", "", "what it is")
	adopt.Flags().String("food", "", "what it eats")
	adopt.Flags().String("drink", "", "")
	adopt.Flags().String("vaccinated-since", "", "from this day")
	adopt.Flags().String("vaccinated-before", "", "to this day")
	RequireOneOf(adopt, "food", "drink")
	_ = adopt.MarkFlagRequired("name")
	_ = adopt.MarkFlagRequired("kind")
	pets.AddCommand(list, get, adopt)
	root.AddCommand(pets)
	return root
}

func TestACommandLineIsUnderstoodOrHasNoEffect(t *testing.T) {
	for line, want := range map[string]struct {
		code int
		says []string
	}{
		"pets list --limit 2": {0, nil},
		"pets":                {0, nil},
		"":                    {0, nil},
		"help pets list":      {0, nil},
		"pets get rex":        {ExitFailure, []string{"prog: there is no such pet\n"}},
		"pets lst": {
			ExitUsage,
			[]string{
				`unknown command "lst" for "prog pets"; did you mean prog pets list?`,
				"See `prog pets --help`",
			},
		},
		"pets zzzzzz": {ExitUsage, []string{`(known: adopt, get, list)`}},
		"pet list":    {ExitUsage, []string{`did you mean prog pets?`}},
		"pet list --limit 3": {
			ExitUsage, []string{`unknown command "pet" for "prog"; did you mean prog pets?`},
		},
		"help pets lits": {ExitUsage, []string{`did you mean prog pets list?`}},
		"pets list rex": {
			ExitUsage, []string{"prog: pets list takes no arguments, got \"rex\"\n"},
		},
		"pets get": {
			ExitUsage, []string{"prog: pets get requires one PET_ID, got no argument\n"},
		},
		"pets get a b": {
			ExitUsage, []string{"prog: pets get requires one PET_ID, got 2 arguments\n"},
		},
		"pets get EMPTY": {ExitUsage, []string{"PET_ID is empty"}},
		"pets list --limits 3": {
			ExitUsage,
			[]string{
				"prog: unknown flag --limits for \"prog pets list\"; did you mean --limit?\n",
				"See `prog pets list --help`",
			},
		},
		"pets adopt --vaccinated 3": {
			ExitUsage,
			[]string{`"prog pets adopt"; did you mean --vaccinated-before or --vaccinated-since?`},
		},
		"pets list --limit-of-pets 3": {
			ExitUsage, []string{"unknown flag --limit-of-pets", "; did you mean --limit?\n"},
		},
		"pets list -q":      {ExitUsage, []string{"unknown flag -q"}},
		"pets list --limit": {ExitUsage, []string{"--limit"}},
		"pets list --limit two": {
			ExitUsage, []string{`--limit "two": must be a whole number`},
		},
		"pets list --wait 3": {
			ExitUsage, []string{`--wait "3": must be a duration such as`},
		},
		"pets adopt": {
			ExitUsage,
			[]string{
				"--name is required: what it is called", "--kind is required: what it is",
				"--food or --drink is required",
			},
		},
		"pets adopt --name x --kind y --drink z": {0, nil},
		"completion foo": {
			ExitUsage, []string{`unknown command "foo" for "prog completion"`},
		},
	} {
		did, stderr := "", bytes.Buffer{}
		root := tree(&did)
		root.SetOut(io.Discard)
		args := strings.Fields(line)
		if i := slices.Index(args, "EMPTY"); i >= 0 {
			args[i] = ""
		}
		code := Execute(context.Background(), Line{Root: root, Args: args, Stderr: &stderr})
		if code != want.code || code == 0 && stderr.Len() > 0 {
			t.Errorf("%q ended with %d: %s", line, code, &stderr)
		}
		for _, text := range want.says {
			if !strings.Contains(stderr.String(), text) {
				t.Errorf("%q does not say %q: %s", line, text, &stderr)
			}
		}
		if code == ExitUsage && did != "" {
			t.Errorf("%q was not understood, and did %q", line, did)
		}
	}
}

func TestVariablesSetFlagsOrAreFaults(t *testing.T) {
	run := func(args ...string) (code int, did, said string) {
		stderr := bytes.Buffer{}
		root := tree(&did)
		root.SetOut(io.Discard)
		code = Execute(context.Background(),
			Line{Root: root, Args: args, Elsewhere: []string{"LUMENHOOK_ELSEWHERE"}, Stderr: &stderr})
		return code, did, stderr.String()
	}
	for name, value := range map[string]string{
		"LUMENHOOK_LIMIT": "5",
		"LUMENHOOK_NAME":  "of another command", "LUMENHOOK_ELSEWHERE": "x", "LUMENHOOK_TEST_X": "x",
		// Kubernetes sets these for services that are called lumenhook and lumenhook-api.
		"LUMENHOOK_SERVICE_HOST":      "10.0.0.1",
		"LUMENHOOK_SERVICE_PORT":      "80",
		"LUMENHOOK_SERVICE_PORT_HTTP": "80", "LUMENHOOK_PORT": "tcp://10.0.0.1:80",
		"LUMENHOOK_PORT_80_TCP":       "tcp://10.0.0.1:80",
		"LUMENHOOK_PORT_80_TCP_PROTO": "tcp",
		"LUMENHOOK_PORT_80_TCP_PORT":  "80", "LUMENHOOK_PORT_80_TCP_ADDR": "10.0.0.1",
		"LUMENHOOK_API_SERVICE_HOST": "10.0.0.1", "LUMENHOOK_ACTIVE_HELP": "0",
		"LUMENHOOK_API_PORT": "tcp://10.0.0.1:80", "LUMENHOOK_API_PORT_80_TCP_ADDR": "10.0.0.1",
	} {
		t.Setenv(name, value)
	}
	if code, did, said := run("pets", "list"); code != 0 || did != "xxxxx" {
		t.Errorf("%d, %q: %s", code, did, said)
	}
	if code, did, said := run("pets", "list", "--limit", "1"); code != 0 || did != "x" {
		t.Errorf("a flag does not win: %d, %q: %s", code, did, said)
	}
	t.Setenv("LUMENHOOK_LIMTI", "5")
	t.Setenv("LUMENHOOK_API_PORTS", "x")
	t.Setenv("LUMENHOOK_WAIT", "long")
	code, did, said := run("pets", "list")
	if code != ExitUsage || did != "" {
		t.Errorf("%d, %q", code, did)
	}
	for _, want := range []string{
		"LUMENHOOK_LIMTI sets nothing; did you mean LUMENHOOK_LIMIT?",
		"LUMENHOOK_API_PORTS sets nothing; unset it",
		`LUMENHOOK_WAIT="long": must be a duration`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("not told: %s\n%s", want, said)
		}
	}
	if code, _, said := run("pets"); code != 0 {
		t.Errorf("help is refused: %s", said)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"create", "list", "get", "delete", "disable", "enable", "rotate-secret", "list"}
	for word, want := range map[string][]string{
		"lst":    {"list"},
		"remove": {},
		"delet":  {"delete"},
		"rotate": {"rotate-secret"},
		"x":      {},
		"LIST":   {"list"},
		"foo":    {},
	} {
		if got := Nearest(word, names); !slices.Equal(got, want) {
			t.Errorf("%s: %q", word, got)
		}
	}
}

func TestOneMemberOfAnAnswer(t *testing.T) {
	answer := map[string]any{
		"id":   "ep_1",
		"data": []any{map[string]any{"id": "evt_1", "n": 12345678901234567}},
		"none": nil,
		"list": []any{},
	}
	for field, want := range map[string]string{
		"id":        "ep_1\n",
		"data.0.id": "evt_1\n",
		"data.0.n":  "12345678901234567\n",
		"none":      "null\n",
		"data.0":    `{"id":"evt_1","n":12345678901234567}` + "\n",
	} {
		var out bytes.Buffer
		if err := (&Output{Field: field}).Print(&out, answer, nil); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", field, out.String(), err)
		}
	}
	for field, want := range map[string]string{
		"ids":        `--field "ids": the answer has no "ids"; it has data, id, list, none`,
		"data.1":     `data has no "1"; it is a list, whose members are 0 to 0`,
		"data.0.ids": `data.0 has no "ids"; it has id, n`,
		"list.0.id":  "list is an empty list",
		"id.x":       "id has no members",
		"data.-1":    `data has no "-1"`,
	} {
		var out bytes.Buffer
		if err := (&Output{Field: field}).Print(&out, answer, nil); err == nil ||
			!strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestARefusalIsToldByItsFlags(t *testing.T) {
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	flags.String("url", "", "")
	flags.StringSlice("asset", nil, "")
	flags.String("wallet", "", "")
	_ = flags.Parse([]string{"--asset", "XLM,USD:G"})
	refused := &client.Problem{
		Status:    422,
		Code:      "VALIDATION_FAILED",
		Detail:    "The body has 4 faults; errors names each.",
		RequestID: "req_1",
		Errors: []client.Fault{
			{Pointer: "/url", Code: "INVALID_VALUE", Detail: "url must use https"},
			{Pointer: "/assets/1/issuer", Detail: "is no address"},
			{Pointer: "/walletAddress", Detail: "must start with G"},
			{Pointer: "/other/field", Detail: "is odd"}, {Parameter: "url", Detail: "is long"},
		},
	}
	want := "making it: --url: must use https\n--asset \"USD:G\": is no address\n--wallet: must start with G\nother/field: is odd\n--url: is long"
	if got := Explain(errors.Join(errorf("making it: ", refused)), flags); got != want {
		t.Errorf("%s", got)
	}
	if got := Explain(&client.Problem{
		Status:    503,
		Code:      "OVERLOADED",
		Detail:    "Not now.",
		RequestID: "req_1",
	}, flags); got != "Not now. (OVERLOADED, request req_1)" {
		t.Errorf("%s", got)
	}
}

// If a flag names an endpoint that doesn't exist, the error must contain the id and refer to
// commands, not to requests.
func TestAnUnknownEndpointOfAFlagIsNamed(t *testing.T) {
	const unknown, watch = "ep_00000000000000000000000000", "wat_00000000000000000000000000"
	for pointer, flag := range map[string]string{
		"/endpointId": "endpoint", "/noticesTo": "notices-to",
	} {
		for id, after := range map[string]string{
			unknown: "; `lumenhook endpoints list` shows yours, and `lumenhook endpoints create` " +
				"creates one",
			watch:  " is the id of a watch; an endpoint's begins with ep_",
			"ep_1": " (must be an id: ep_ and 26 characters)",
		} {
			flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
			flags.String(flag, "", "")
			if err := flags.Set(flag, id); err != nil {
				t.Fatal(err)
			}
			refused := &client.Problem{Status: http.StatusUnprocessableEntity, Errors: []client.Fault{{
				Pointer: pointer,
				Code:    problem.FaultEndpointNotFound,
				Detail:  "names none: create one with POST /v1/endpoints",
			}}}
			want := "--" + flag + ": names no endpoint of your account: " + id + after
			if got := Explain(refused, flags); got != want {
				t.Errorf("it was told %q and not %q", got, want)
			}
		}
	}
}

// If a key is refused, the error must name its source. If an id isn't found, the error must contain
// it.
func TestARefusalNamesTheKeyAndTheID(t *testing.T) {
	keyless := &client.Problem{Status: http.StatusUnauthorized, Detail: "Send a valid API key."}
	missing := func(detail string) *client.Problem {
		return &client.Problem{Status: http.StatusNotFound, Detail: detail}
	}
	gone, away := missing("There is no such pet."), missing("There is no such watch.")
	noEndpoint := missing("Your account has no endpoint with this id.")
	for _, c := range []struct {
		refused *client.Problem
		value   string // of the key's variable
		args    []string
		want    string
	}{
		{keyless, "", []string{"--api-key", "k"}, "the service rejected the API key from --api-key; "},
		{keyless, "k", nil, "the service rejected the API key from LUMENHOOK_API_KEY; "},
		{keyless, "", nil, "the service rejected the API key of the data folder .zoo; "},
		{gone, "", []string{"pet_1"}, "There is no such pet: pet_1"},
		{away, "", []string{"--watch", "wat_1"}, "There is no such watch: wat_1"},
		{away, "", []string{"--endpoint", "ep_1"}, "There is no such watch."},
		{noEndpoint, "", []string{"evt_1"},
			"Your account has no endpoint with this id: evt_1 (must be an id: ep_ and 26 characters)"},
		{noEndpoint, "", []string{"wat_00000000000000000000000000"},
			"Your account has no endpoint with this id: wat_00000000000000000000000000 is the id of a " +
				"watch; an endpoint's begins with ep_"},
		{away, "", []string{"--watch", "evt_00000000000000000000000000"},
			"There is no such watch: evt_00000000000000000000000000 is the id of an event; a watch's " +
				"begins with wat_"},
		{noEndpoint, "", []string{"ep_foo"},
			"Your account has no endpoint with this id: ep_foo (must be an id: ep_ and 26 characters)"},
		{noEndpoint, "", []string{"--watch", "wat_1", "--endpoint", "ep_1"},
			"Your account has no endpoint with this id: ep_1"},
		{gone, "", nil, "There is no such pet."},
	} {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		flags.String("api-key", "", "")
		flags.String("data-dir", ".zoo", "")
		flags.String("watch", "", "")
		flags.String("endpoint", "", "")
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if c.value != "" {
			t.Setenv(Variable("api-key"), c.value)
			if faults := fromEnvironment(flags); len(faults) > 0 {
				t.Fatal(faults)
			}
		}
		if got := Explain(c.refused, flags); !strings.HasPrefix(got, c.want) ||
			strings.Contains(got, "header") {
			t.Errorf("%v: %s", c.args, got)
		}
		_ = os.Unsetenv(Variable("api-key"))
	}
}

// An interrupted command must report the interruption, not a failed connection.
func TestAnInterruptionIsToldAsSuch(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := client.New(server.URL, "key", server.Client())
	if err != nil {
		t.Fatal(err)
	}
	_, asking := c.GetEvent(ctx, "evt_1")
	for _, err := range []error{asking, errorf("asking ClickHouse: ", context.Canceled)} {
		got := Explain(err, pflag.NewFlagSet("x", pflag.ContinueOnError))
		if !strings.HasSuffix(got, ": interrupted") || strings.Contains(got, "nothing can be") {
			t.Errorf("%v is told as %q", err, got)
		}
	}
}

// The error for an empty range must name both ends by their flags.
func TestARangeIsToldByItsFlags(t *testing.T) {
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	for _, name := range []string{"min-amount", "max-amount", "since", "until"} {
		flags.String(name, "", "")
	}
	empty := func(parameter, detail string) error {
		return &client.Problem{Status: http.StatusBadRequest, Errors: []client.Fault{
			{Parameter: parameter, Code: problem.FaultRangeIsEmpty, Detail: detail},
		}}
	}
	for want, err := range map[string]error{
		"--max-amount: must not be less than --min-amount": empty("maxAmount",
			"must not be less than minAmount"),
		"--until: must be later than --since": empty("until", "must be later than since"),
	} {
		if got := Explain(err, flags); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestADurationHasItsBounds(t *testing.T) {
	for value, want := range map[string]string{
		"24h": "", "1m": "", "90m": "",
		"25h": "from 1m to 24h", "59s": "from 1m to 24h", "99999999h": "from 1m to 24h",
		"x": "from 1m to 24h",
	} {
		var lasts time.Duration
		var said bytes.Buffer
		root := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { return nil }}
		DurationWithin(root.Flags(), &lasts, "lasts", time.Hour, time.Minute, 24*time.Hour, "how long")
		code := Execute(t.Context(), Line{Root: root, Args: []string{"--lasts", value}, Stderr: &said})
		switch {
		case want == "" && code != 0,
			want != "" && (code != ExitUsage || lasts != time.Hour || !strings.HasPrefix(said.String(),
				"prog: --lasts \""+value+"\": must be a time "+want)):
			t.Errorf("%s ended with %d: %s", value, code, &said)
		}
	}
}

// A time in the future isn't a valid start, but a clock may be slightly ahead.
func TestAFutureIsNoBeginning(t *testing.T) {
	for offset, taken := range map[time.Duration]bool{
		-time.Hour: true, 10 * time.Second: true, time.Hour: false,
	} {
		at := time.Now().Add(offset)
		err := CheckPast("since", at)
		says := "--since \"" + at.Format(time.RFC3339)
		if (err == nil) != taken || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s from now: %v", offset, err)
		}
	}
}

// A value that is invalid whatever the service stores must exit with the code for usage errors,
// even if only the API detects it.
func TestAnInvalidValueEndsWith2WhoeverFindsIt(t *testing.T) {
	fault := func(pointer, code string) *client.Problem {
		return &client.Problem{Status: http.StatusUnprocessableEntity, Errors: []client.Fault{
			{Pointer: pointer, Code: code, Detail: "is wrong"},
		}}
	}
	for _, c := range []struct {
		err  error
		args []string
		code int
	}{
		{fault("/kind", problem.FaultInvalidValue), []string{"--kind", "x"}, ExitUsage},
		{
			&client.Problem{Status: http.StatusBadRequest, Errors: []client.Fault{
				{Parameter: "kind", Code: problem.FaultInvalidValue, Detail: "is wrong"},
			}},
			[]string{"--kind", "x"}, ExitUsage,
		},
		{fault("/kind", problem.FaultRequired), nil, ExitFailure},
		{fault("/other", problem.FaultInvalidValue), []string{"--kind", "x"}, ExitFailure},
		{fault("/kind", problem.FaultEndpointNotFound), []string{"--kind", "x"}, ExitFailure},
		{fault("/kind", problem.CodeSSRFBlocked), []string{"--kind", "x"}, ExitFailure},
		{&client.Problem{Status: http.StatusConflict}, []string{"--kind", "x"}, ExitFailure},
	} {
		root := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error { return c.err }}
		root.Flags().String("kind", "", "")
		line := Line{Root: root, Args: append([]string{}, c.args...), Stderr: io.Discard}
		if code := Execute(t.Context(), line); code != c.code {
			t.Errorf("%v with %v ended with %d, not %d", c.err, c.args, code, c.code)
		}
	}
}

func TestANameThatDoesNotResolveIsToldPlainly(t *testing.T) {
	_, err := net.Dial("tcp", "no-such-host.invalid:9092")
	got := Explain(err, pflag.NewFlagSet("x", pflag.ContinueOnError))
	if got != "the host name no-such-host.invalid does not resolve; is it correct?" {
		t.Error(got)
	}
}

type wrapped struct {
	text string
	error
}

func errorf(text string, err error) error { return wrapped{text, err} }

func (w wrapped) Error() string { return w.text + w.error.Error() }
func (w wrapped) Unwrap() error { return w.error }

func TestADeadConnectionIsToldByWhatToDo(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer secure.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	_ = closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for address, want := range map[string]string{
		"http://" + nobody: "cannot connect to http://" + nobody +
			": connection refused; is the service running",
		"https" + strings.TrimPrefix(plain.URL, "http"): "the server doesn't use TLS; " +
			"use an http:// address",
		secure.URL:                         "from an unknown authority; set --ca-file",
		"http://no-such-host.invalid:1":    "the host name no-such-host.invalid",
		"http://" + silent.Addr().String(): "timed out",
	} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
		c, err := client.New(address, "k",
			&http.Client{Transport: transport, Timeout: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.GetEndpoint(t.Context(), "ep_1")
		if got := Explain(err, pflag.NewFlagSet("x",
			pflag.ContinueOnError)); !strings.Contains(got, want) || strings.Contains(
			got, "dial tcp",
		) || strings.Contains(got, "client:") {
			t.Errorf("%s: %s", address, got)
		}
		transport.CloseIdleConnections()
	}
}

func TestABuildNamesItself(t *testing.T) {
	defer func(v, c, d string) { version, commit, date = v, c, d }(version, commit, date)
	version, commit, date = "v1.2.3", "0123456789abcdef", "2026-11-22T01:00:00Z"
	b := ThisBuild()
	got := b.String()
	if !strings.HasPrefix(got, "v1.2.3 (commit 0123456789ab of 2026-11-22T01:00:00Z") ||
		!strings.Contains(got, b.Go) {
		t.Error(got)
	}
	version, commit, date = "", "", ""
	if b := ThisBuild(); b.Version == "" || b.Version == "(devel)" || b.Commit == "" || b.Date == "" {
		t.Errorf("%+v", b)
	}
}

func TestMain(m *testing.M) {
	for _, entry := range os.Environ() { // variables of the environment must not affect the tests
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, VariablePrefix) {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// If the response to a change lacks the requested field, the complete response must be printed,
// because it may contain a secret that is shown only once.
func TestAChangeIsPrintedWholeWithoutItsMember(t *testing.T) {
	type answer struct {
		ID     string `json:"id"`
		Secret string `json:"secret,omitempty"`
	}
	if code, out, said := answers(t, answer{ID: "x"}, "id"); code != 0 || out != "x\n" {
		t.Errorf("ends with %d, prints %q: %s", code, out, said)
	}
	for _, field := range []string{"secret", "ids", "id.x"} {
		code, out, said := answers(t, answer{ID: "x"}, field)
		if code != ExitFailure || !strings.Contains(out, `"id": "x"`) ||
			!strings.Contains(said, "the command succeeded") {
			t.Errorf("%s: ends with %d, prints %q: %s", field, code, out, said)
		}
	}
}

// answers runs a command that makes a change and prints answer.
func answers(t *testing.T, answer any, field string) (code int, out, said string) {
	t.Helper()
	var o Output
	var stdout, stderr bytes.Buffer
	root := &cobra.Command{Use: "program"}
	c := &cobra.Command{Use: "change", RunE: func(*cobra.Command, []string) error {
		return o.Print(&stdout, answer, nil)
	}}
	o.Register(c.Flags())
	o.Changes(c)
	root.AddCommand(c)
	code = Execute(t.Context(), Line{
		Root: root, Args: []string{"change", "--field", field}, Stderr: &stderr,
	})
	return code, stdout.String(), stderr.String()
}

// The fields of a struct become flags, and the flags that are given become a patch.
func TestFieldsOfAStructAreFlags(t *testing.T) {
	var e client.EndpointCreate
	var f client.EventFilter
	var s client.StatementFilter
	flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
	AddFields(flags, &e)
	AddFields(flags, &f, "asset")
	AddFields(flags, &s, "asset")
	if err := flags.Parse(strings.Fields("--rate-limit 0 --header X-A:1 --header X-B: --ordering= " +
		"--signature= --url https://a.example --state failed --watch wat_1 --min-amount 2 " +
		"--since 2026-11-21T10:15:30Z --from 7 --to 2026-11-21T10:15:30Z --notices-to ep_1")); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 10, 15, 30, 0, time.UTC)
	if f != (client.EventFilter{State: "FAILED", WatchID: "wat_1", MinAmount: "2", Since: at}) ||
		s != (client.StatementFilter{From: client.Bound{Ledger: 7}, To: client.Bound{Time: at}}) {
		t.Errorf("%+v, %+v", f, s)
	}
	patch, err := json.Marshal(ChangedFields(flags, &e))
	if want := `{"headers":{"X-A":"1","X-B":null},"noticesTo":"ep_1","ordering":null,` +
		`"rateLimitPerSecond":null,"signatures":null,"url":"https://a.example"}`; err != nil ||
		string(patch) != want {
		t.Errorf("the patch is %s, %v", patch, err)
	}
	for flag, says := range map[string]string{
		"state": "must be one of QUEUED, WAITING, DELIVERED, FAILED, CANCELLED",
		"since": "must be a time such as", "from": "must be a ledger from 1 to 2147483647, or a time",
		"header": "must be Name: value",
	} {
		for _, text := range []string{"x", "0"} {
			if said := Form(flags.Lookup(flag)); flags.Set(flag, text) == nil && flag != "since" ||
				!strings.HasPrefix(said, says) {
				t.Errorf("--%s %s: %s", flag, text, said)
			}
		}
	}
	for field, flag := range map[string]string{
		"walletAddress": "wallet", "txHash": "tx", "maxAmount": "max-amount", "graceSeconds": "grace",
		"senderAllowlist": "sender", "expiresInSeconds": "expires-in", "amountRule": "amount",
	} {
		all := pflag.NewFlagSet("x", pflag.ContinueOnError)
		all.String(flag, "", "")
		if flagFor(field, all) == nil {
			t.Errorf("%s is not of --%s", field, flag)
		}
	}
}
