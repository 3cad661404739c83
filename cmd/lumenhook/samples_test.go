package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/schemas"
)

// refused is the name of a sample that gets a problem, because it reads an endpoint that does not
// exist.
const refused = "refused"

type sampleRig struct {
	*testService
	event, wallet, hash string
}

func newSampleRig(t *testing.T) *sampleRig {
	t.Helper()
	r := &sampleRig{testService: &testService{t: t, dir: t.TempDir()}}
	r.start("--no-demo", "--egress-ports", "443,1024-65535", "--ledger-interval", "200ms",
		"--balance-moves")
	endpoint := r.endpointAt(startHooks(t, r.dir))
	r.wallet = r.watchedWalletOf(endpoint)
	r.devnet(nil, "pay", "--to", r.wallet, "--amount", "5")
	r.event = r.attempted(1)
	r.must("secrets", "signing", "create")
	r.eventually("the key of receipts is published",
		func() bool { return strings.Contains(string(r.keySet()), "kid") })
	var read struct {
		Data struct {
			Payment struct{ TxHash string }
		}
	}
	r.cli(&read, "events", "get", r.event)
	r.hash = read.Data.Payment.TxHash
	return r
}

// samples returns the samples of a language by operation. Each names its own objects.
func (r *sampleRig) samples(language string) map[string]string {
	r.t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Samples     []struct{ Lang, Source string } `json:"x-codeSamples"`
		}
	}
	if err := json.Unmarshal(schemas.OpenAPIJSON, &document); err != nil {
		r.t.Fatal(err)
	}
	all := map[string]string{}
	for _, item := range document.Paths {
		for _, operation := range item {
			for _, sample := range operation.Samples {
				if sample.Lang != language {
					continue
				}
				all[operation.OperationID] = r.named(sample.Source)
				if operation.OperationID == "getEndpoint" {
					all[refused] = strings.ReplaceAll(sample.Source, exampleEndpoint, "ep_none")
				}
			}
		}
	}
	if len(all) < 40 {
		r.t.Fatalf("only %d samples are in %s", len(all), language)
	}
	return all
}

const exampleEndpoint = "ep_4j8g2m1v7q0x9z3k5n6p8r2t4w"

// named replaces the ids of the examples with those of existing objects.
func (r *sampleRig) named(source string) string {
	r.t.Helper()
	shop := map[string]any{"url": "https://shop.example/webhooks"}
	for example, create := range map[string]func() string{
		exampleEndpoint: func() string { return r.created("/v1/endpoints", shop) },
		"wat_0h2k4m6p8r1t3w5y7a9c2e4g6j": func() string {
			return r.created("/v1/watches", map[string]any{
				"walletAddress": r.wallet, "endpointId": r.created("/v1/endpoints", shop),
				"assets":   []map[string]any{{"code": "XLM", "issuer": nil}},
				"memoRule": map[string]string{"kind": "equals", "type": "id", "value": "1042"},
			})
		},
		"key_6d8f0h2j4m6p8r1t3w5y7a9c2e": func() string {
			return r.created("/v1/api-keys", map[string]any{"permissions": []string{"read"}})
		},
		"evt_1v3x5z7b9d2f4h6k8m0p2r4t6w": func() string { return r.event },
		"5a1f0c0e8e0e4c0f9d6a3b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e": func() string {
			return r.hash
		},
		"GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ": func() string { return r.wallet },
		// The ledgers of a backfill, and the expiry of a key.
		"63092000": func() string { return "2" }, "63093000": func() string { return "3" },
		"2027-": func() string { return "2090-" }, "time.Date(2027,": func() string {
			return "time.Date(2090,"
		},
	} {
		if strings.Contains(source, example) {
			source = strings.ReplaceAll(source, example, create())
		}
	}
	return source
}

func (r *sampleRig) created(path string, body any) string {
	r.t.Helper()
	var made struct{ ID string }
	if status := r.call("POST", path, body, &made); status != 201 {
		r.t.Fatalf("%s answered %d", path, status)
	}
	return made.ID
}

// runs executes a sample, which must succeed unless it is the refused one.
func (r *sampleRig) runs(name, dir string, args ...string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.SysProcAttr = dir, subprocess.Killed()
	cmd.Env = append(os.Environ(), "LUMENHOOK_API="+r.file.APIURL, "LUMENHOOK_KEY="+r.file.APIKey)
	said, err := cmd.CombinedOutput()
	if name == refused {
		if err == nil || !strings.Contains(string(said), "NOT_FOUND") {
			r.t.Errorf("%s %s: it is not refused: %v\n%s", args[0], name, err, said)
		}
	} else if err != nil {
		r.t.Errorf("%s %s: %v\n%s", args[0], name, err, said)
	}
}

// TestEverySampleRuns runs the sample of each operation in curl, JavaScript and Go. The one that is
// refused must say why.
func TestEverySampleRuns(t *testing.T) {
	t.Parallel()
	r := newSampleRig(t)
	dir := t.TempDir()
	for name, source := range r.samples("Shell") {
		r.runs(name, dir, "sh", "-c", source)
	}
	for name, source := range r.samples("JavaScript") {
		file := filepath.Join(dir, name+".mjs")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		r.runs(name, dir, "node", file)
	}
	samples := r.samples("Go")
	program := goSamples(t, dir, samples)
	for name := range samples {
		r.runs(name, dir, program, name)
	}
}

// goSamples builds the Go samples as one program, which runs the sample that its argument names. An
// overlay puts the files into this module.
func goSamples(t *testing.T, dir string, samples map[string]string) (program string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]string{}
	add := func(name, source string) {
		file := filepath.Join(dir, name+".go")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(here, "testdata", "samples", name+".go")] = file
	}
	table := "package main\n\nimport \"os\"\n\nfunc main() {\n\tmap[string]func(){\n"
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		add(name, strings.Replace(samples[name], "func main()", "func "+name+"()", 1))
		table += fmt.Sprintf("\t\t%q: %s,\n", name, name)
	}
	add("main", table+"\t}[os.Args[1]]()\n}\n")
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "samples")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, "-o", program,
		"./testdata/samples")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return program
}
