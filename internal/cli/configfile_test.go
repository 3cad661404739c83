package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// zoo is a program with a command that is configured by files.
func zoo(ran *bool) *cobra.Command {
	root := &cobra.Command{Use: "prog"}
	open := &cobra.Command{Use: "open"}
	f := open.Flags()
	RegisterConfig(f)
	f.StringSlice("gate-names", []string{"north"}, "which gates")
	f.String("gate-password", "", "what to say")
	f.String("keeper-key-file", "", "where the key is")
	f.Int("animals", 3, "how many")
	f.String("animals-kind", "owls", "which")
	Secret(f, "gate-password")
	open.PreRunE = func(*cobra.Command, []string) error {
		if n, _ := f.GetInt("animals"); n > 9 {
			return errors.New("--animals: too many")
		}
		return nil
	}
	open.RunE = func(*cobra.Command, []string) error { *ran = true; return nil }
	root.AddCommand(open, feeding(ran))
	return root
}

// feeding is a command that shares the files of open.
func feeding(ran *bool) *cobra.Command {
	feed := &cobra.Command{Use: "feed"}
	f := feed.Flags()
	ShareConfig(f)
	f.StringSlice("gate-names", nil, "which gates")
	f.String("gate-password", "", "what to say")
	f.Int("animals", 3, "how many")
	f.String("animals-kind", "mice", "what they are fed with")
	f.Int("portion", 1, "how much")
	NotShared(f, "animals-kind")
	Secret(f, "gate-password")
	feed.RunE = func(*cobra.Command, []string) error { *ran = true; return nil }
	return feed
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// openZoo returns the effective settings, each as "name=value origin".
func openZoo(t *testing.T, args ...string) (code int, said string, settings []string) {
	t.Helper()
	return runZoo(t, "open", args...)
}

func runZoo(t *testing.T, what string, args ...string) (code int, said string, settings []string) {
	t.Helper()
	var ran bool
	var stderr bytes.Buffer
	root := zoo(&ran)
	args = append([]string{what}, args...)
	code = Execute(context.Background(), Line{Root: root, Args: args, Stderr: &stderr})
	if ran != (code == 0) {
		t.Errorf("%q: ended with %d, and ran: %v", args, code, ran)
	}
	opened, _, err := root.Find([]string{what})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Effective(opened.Flags()) {
		settings = append(settings, s.Name+"="+s.Value+" "+s.From)
	}
	return code, stderr.String(), settings
}

// A flag must take precedence over its variable, then the secret file, then the configuration file,
// then the default. The origin of each value must be reported.
func TestPrecedence(t *testing.T) {
	dir, secrets := t.TempDir(), t.TempDir()
	file := write(t, dir, "a.yaml",
		"gate:\n  names: [east, 'south, by the river']\n  password: from the file\nanimals: 5\nanimals-kind: cats\n")
	password := write(t, secrets, "gate-password", "hush\n")
	key := write(t, secrets, "keeper-key", "k")
	write(t, secrets, "..data", "of Kubernetes")
	t.Setenv("LUMENHOOK_ANIMALS_KIND", "dogs")
	t.Setenv("LUMENHOOK_CONFIG", file)
	code, said, got := openZoo(t, "--secrets-dir", secrets, "--animals", "7")
	if code != 0 {
		t.Fatalf("%d: %s", code, said)
	}
	for _, want := range []string{
		`gate-names=[east,"south, by the river"] ` + file + ":2",
		"gate-password=" + masked + " " + password,
		"keeper-key-file=" + key + " " + key, "animals=7 --animals",
		"animals-kind=dogs LUMENHOOK_ANIMALS_KIND", "config=" + file + " LUMENHOOK_CONFIG",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if _, _, got = openZoo(t, "--config", write(t, dir, "empty.yaml", "")); !slices.Contains(got,
		"animals=3 default") {
		t.Errorf("an empty file changed %q", got)
	}
}

// Every fault must be reported at once, with its position, and without repeating a secret.
func TestFaultsOfFilesAreToldAtOnce(t *testing.T) {
	dir, secrets := t.TempDir(), t.TempDir()
	file := write(t, dir, "a.yaml",
		"gate:\n  nams: [east]\n  password: [whisper]\nanimals: 12\nanimals: 4\n\nanimals-kind:\nconfig: b.yaml\n")
	empty := write(t, secrets, "gate-password", "\n")
	unknown := write(t, secrets, "gatepasswrd", "loud")
	code, said, _ := openZoo(t, "--config", file, "--secrets-dir", secrets)
	if code != ExitUsage {
		t.Errorf("ended with %d", code)
	}
	for _, want := range []string{
		file + ":2: gate-nams sets nothing; did you mean gate-names?",
		file + ":3: gate-password: must be one value",
		file + ":5: animals was already set on line 4", file + ":7: animals-kind: must be one value",
		file + ":8: config sets nothing", empty + " is empty",
		unknown + " sets nothing; did you mean gate-password?",
		"--animals: too many",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "whisper") || strings.Contains(said, "loud") {
		t.Errorf("a secret is repeated in:\n%s", said)
	}
	for _, c := range []struct{ text, want string }{
		{"- a\n", "must be settings"}, {"a: [\n", "a.yaml"},
		{"animals: 1\n---\nanimals: 2\n", "must be one document"},
		{"animals: {}\ngate: 3\n", ":2: gate sets nothing"},
		{"animals: x\n", ":1: animals: must be a whole number"},
		{strings.Repeat("#", configMaxBytes+1), "is larger than"},
	} {
		file := write(t, dir, "a.yaml", c.text)
		if code, said, _ := openZoo(t, "--config", file); code != ExitUsage ||
			!strings.Contains(said, c.want) {
			t.Errorf("%.20q: %d, %q is not said in:\n%s", c.text, code, c.want, said)
		}
	}
	for _, flag := range []string{"--config", "--secrets-dir"} {
		if code, said, _ := openZoo(t, flag, "/nowhere"); code != ExitUsage ||
			!strings.Contains(said, flag) {
			t.Errorf("%s: %d\n%s", flag, code, said)
		}
	}
}

// A command that shares another command's files must use the settings that it has flags for, with
// the same precedence, and ignore the other command's remaining settings.
func TestACommandTakesItsOwnOfAnothersFiles(t *testing.T) {
	dir, secrets := t.TempDir(), t.TempDir()
	file := write(t, dir, "a.yaml", "gate:\n  names: [east]\n  password: unread\n"+
		"animals: 5\nanimals-kind: cats\nkeeper-key-file: /k\n")
	password := write(t, secrets, "gate-password", "hush\n")
	write(t, secrets, "keeper-key", "k")
	t.Setenv("LUMENHOOK_ANIMALS", "7")
	code, said, got := runZoo(t, "feed", "--config", file, "--secrets-dir", secrets)
	if code != 0 {
		t.Fatalf("%d: %s", code, said)
	}
	want := []string{
		"animals=7 LUMENHOOK_ANIMALS", "animals-kind=mice default", "config=" + file + " --config",
		"gate-names=[east] " + file + ":2", "gate-password=" + masked + " " + password,
		"portion=1 default", "secrets-dir=" + secrets + " --secrets-dir",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// A setting that neither command knows is a fault. So is one that only the sharing command knows,
// because the other command would refuse the file.
func TestWhatAnothersFilesMayNotSay(t *testing.T) {
	dir, secrets := t.TempDir(), t.TempDir()
	file := write(t, dir, "a.yaml", "gate:\n  nams: [east]\nportion: 4\nanimals: many\n")
	unknown := write(t, secrets, "gate-pasword", "loud")
	plain := write(t, secrets, "animals-kind", "loud")
	code, said, _ := runZoo(t, "feed", "--config", file, "--secrets-dir", secrets)
	if code != ExitUsage {
		t.Errorf("ended with %d", code)
	}
	for _, want := range []string{
		file + ":2: gate-nams sets nothing; did you mean gate-names?",
		file + ":3: portion sets nothing", file + ":4: animals: must be a whole number",
		unknown + " sets nothing; did you mean gate-password?", plain + " sets nothing",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "loud") {
		t.Errorf("a secret is repeated in:\n%s", said)
	}
}
