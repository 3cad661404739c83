//go:build receivers

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/api/client"
)

// apiClients are the clients that tools generate from openapi.yaml, each with an example.
var apiClients = []kit{
	{
		dir:     "../../api/clients/typescript",
		lock:    "package-lock.json",
		fetch:   []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"},
		prepare: [][]string{{"npm", "run", "--silent", "build"}},
		apps:    []kitApp{{"TypeScript", []string{"node", "build/example.js"}}},
	},
	{
		dir:   "../../api/clients/python",
		lock:  "requirements.txt",
		fetch: pipInstall,
		prepare: [][]string{{
			"python3", "-m", "openapi_python_client", "generate", "--fail-on-warning", "--meta", "setup",
			"--path", "../../../schemas/openapi.yaml", "--config", "config.yaml",
			"--output-path", "build/lumenhook-client", "--overwrite",
		}},
		env:  []string{"PYTHONPATH=build/deps:build/lumenhook-client"},
		apps: []kitApp{{"Python", []string{"python3", "example.py"}}},
	},
}

// readEvents prints the type of each event and the class of its data, as the Python client decodes
// them.
const readEvents = `
import json, sys
from lumenhook_client.models import Event
for file in sys.argv[1:]:
    for event in json.load(open(file)):
        read = Event.from_dict(event)
        print(read.type_.value, type(read.data).__name__)
        assert read.to_dict() == event, event["id"]
`

// TestTheGeneratedClientReadsEveryEvent checks that the Python client decodes the published events
// without losing a field, and their data into the right class.
func TestTheGeneratedClientReadsEveryEvent(t *testing.T) {
	python := apiClients[1]
	if err := python.install(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", readEvents, "../../../schemas/vectors/events.json",
		"../../../schemas/vectors/notices.json")
	cmd.Dir, cmd.Env = python.dir, append(os.Environ(), python.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"payment.received PaymentData", "payment.rejected PaymentData", "test.ping TestData",
		"endpoint.failing FailingData", "endpoint.disabled DisabledData",
	} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("it reads no %s:\n%s", want, out)
		}
	}
}

var exampleSays = regexp.MustCompile(`^endpoint (ep_\w+) .* 58 long
watch (wat_\w+)
event (evt_\w+) payment.received
problem NOT_FOUND
$`)

// TestGeneratedClientsReachTheService runs each client's example, which creates an endpoint and a
// watch, finds the event of a payment, and reads a problem.
func TestGeneratedClientsReachTheService(t *testing.T) {
	var preparing errgroup.Group
	for _, k := range apiClients {
		preparing.Go(k.install)
	}
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--ledger-interval", "200ms")
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	var e client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", "https://shop.example/webhooks")
	s.cli(nil, "watches", "create", "--wallet", wallet.Address, "--endpoint", e.ID)
	s.devnet(nil, "pay", "--to", wallet.Address, "--amount", "2", "--json")
	var events client.List[client.Event]
	s.eventually("the payment is in the history", func() bool {
		s.cli(&events, "events", "list", "--wallet", wallet.Address)
		return len(events.Data) == 1
	})
	if err := preparing.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, k := range apiClients {
		said := s.runsExample(k, wallet.Address)
		found := exampleSays.FindStringSubmatch(said)
		if found == nil {
			t.Errorf("the example of %s says\n%s", k.apps[0].name, said)
			continue
		}
		var made client.Endpoint
		s.cli(&made, "endpoints", "get", found[1])
		var watch client.Watch
		s.cli(&watch, "watches", "get", found[2])
		if made.Description != "from "+k.apps[0].name || watch.EndpointID != made.ID ||
			watch.WalletAddress != wallet.Address || found[3] != events.Data[0].ID {
			t.Errorf("%s made %+v and %+v, and says\n%s", k.apps[0].name, made, watch, said)
		}
	}
}

func (s *testService) runsExample(k kit, wallet string) (said string) {
	s.t.Helper()
	run := append(k.apps[0].run[:len(k.apps[0].run):len(k.apps[0].run)], wallet)
	cmd := exec.Command(run[0], run[1:]...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "LUMENHOOK_API="+s.file.APIURL, "LUMENHOOK_KEY="+s.file.APIKey)
	cmd.Env = append(cmd.Env, k.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("%s: %v\n%s", strings.Join(run, " "), err, out)
	}
	return string(out)
}
