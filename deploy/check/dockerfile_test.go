package check

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// dockerfile returns the stages of the image. A warning of Docker's own linter is an error.
func dockerfile() ([]instructions.Stage, error) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		return nil, err
	}
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var said []error
	for _, w := range file.Warnings {
		said = append(said, errors.New(w.Short))
	}
	lint := linter.New(&linter.Config{Warn: func(
		rule, description, _, message string, at []parser.Range,
	) {
		said = append(said,
			fmt.Errorf("line %d: %s: %s (%s)", at[0].Start.Line, rule, message, description))
	}})
	stages, _, err := instructions.Parse(file.AST, lint)
	return stages, errors.Join(append(said, err)...)
}

func all[T instructions.Command](stage instructions.Stage) (found []T) {
	for _, c := range stage.Commands {
		if one, is := c.(T); is {
			found = append(found, one)
		}
	}
	return found
}

func buildCommand() (string, error) {
	stages, err := dockerfile()
	if err != nil {
		return "", err
	}
	for _, run := range all[*instructions.RunCommand](stages[0]) {
		if text := strings.Join(run.CmdLine, " "); strings.Contains(text, "go build") {
			return text, nil
		}
	}
	return "", errors.New("the Dockerfile builds nothing")
}

// pinned matches the name of an external image with its version and digest. A tag alone can be
// moved to another image.
var pinned = regexp.MustCompile(
	`^[a-z0-9./-]+:v?[0-9]+\.[0-9]+[A-Za-z0-9._-]*@sha256:[0-9a-f]{64}$`)

func TestTheImage(t *testing.T) {
	stages, err := dockerfile()
	if err != nil {
		t.Fatal(err)
	}
	last := stages[len(stages)-1]
	if len(stages) < 2 || last.BaseName != "scratch" {
		t.Errorf("the image stands on %s, in %d stages", last.BaseName, len(stages))
	}
	names := []string{"scratch"}
	for _, stage := range stages {
		if !slices.Contains(names, stage.BaseName) && !pinned.MatchString(stage.BaseName) {
			t.Errorf("FROM %s is not pinned to a version and a digest", stage.BaseName)
		}
		names = append(names, stage.Name)
		for _, c := range stage.Commands {
			if c.Name() == "ADD" {
				t.Errorf("%v: COPY says what it does", c)
			}
		}
		for _, c := range all[*instructions.CopyCommand](stage) {
			if c.From != "" && !slices.Contains(names, c.From) {
				t.Errorf("%v copies from no stage before it", c)
			}
		}
	}
	users := all[*instructions.UserCommand](last)
	if len(users) != 1 {
		t.Fatalf("%d users", len(users))
	}
	user, group, _ := strings.Cut(users[0].User, ":")
	if id, err := strconv.Atoi(user); err != nil || id == 0 || group != user {
		t.Errorf("USER %s: must be a number, which Kubernetes can tell from root", users[0].User)
	}
	entry := all[*instructions.EntrypointCommand](last)
	if len(entry) != 1 || entry[0].PrependShell ||
		!slices.Equal(entry[0].CmdLine, []string{"/lumenhook"}) {
		t.Errorf("the entry point is %v", entry)
	}
	text, err := os.ReadFile("../Dockerfile")
	if err != nil || strings.Contains(string(text), "://") {
		t.Errorf("the Dockerfile has an address in it (%v)", err)
	}
}

// The health check must run the program itself, because the image contains nothing else.
func TestTheImageAsksHowItIs(t *testing.T) {
	stages, err := dockerfile()
	if err != nil {
		t.Fatal(err)
	}
	asks := all[*instructions.HealthCheckCommand](stages[len(stages)-1])
	if len(asks) != 1 {
		t.Fatalf("%d HEALTHCHECKs", len(asks))
	}
	asked := asks[0].Health.Test
	if len(asked) < 3 || asked[0] != "CMD" || asked[1] != "/lumenhook" {
		t.Fatalf("asked is by %q", asked)
	}
	if _, err := (place{name: "HEALTHCHECK"}).accepts(asked[2:]); err != nil {
		t.Error(err)
	}
	if !slices.Contains(asked, "--alive") {
		t.Error("what restarts by it would do so while Kafka is away")
	}
}

func TestTheImagesCompilerIsTheToolchain(t *testing.T) {
	stages, err := dockerfile()
	if err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	tag := regexp.MustCompile(`^golang:(\d+\.\d+\.\d+)-`).FindStringSubmatch(stages[0].BaseName)
	mod := regexp.MustCompile(`(?m)^toolchain go(\d+\.\d+\.\d+)$`).FindStringSubmatch(string(asked))
	if tag == nil || mod == nil || tag[1] != mod[1] {
		t.Errorf("%s builds what go.mod builds with %v", stages[0].BaseName, mod)
	}
}

// The program must report the build arguments, and be static.
func TestTheBuild(t *testing.T) {
	out, stderr, err := (place{}).run("version", "--json")
	var is struct {
		Version, Commit, Date string
		Modified              bool
	}
	if err != nil || json.Unmarshal([]byte(out), &is) != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr)
	}
	if is.Version != "v9.8.7" || is.Commit != "0123456789abcdef" ||
		is.Date != "2026-11-22T09:00:00Z" || !is.Modified {
		t.Errorf("the program was built as %+v from %v", is, buildArguments)
	}
	if runtime.GOOS != "linux" {
		return // images are only built for Linux
	}
	program, err := elf.Open(built)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program is not static: scratch has no linker for it")
		}
	}
}

// .dockerignore must let through everything that the program is built from, and nothing else.
func TestTheContextIsComplete(t *testing.T) {
	clean := context(t)
	c := exec.Command("go", "list", "-deps", "-tags", "noengine", "./cmd/lumenhook")
	c.Dir = clean
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{
		".git", "deploy/check", "docs/decisions", "docs/pictures", "internal/lab",
		"cmd/lumenhook/run_test.go",
	} {
		if _, err := os.Stat(filepath.Join(clean, name)); err == nil {
			t.Errorf("%s is in the context", name)
		}
	}
}

// context copies the build context that Docker would receive into a clean folder.
func context(t *testing.T) string {
	t.Helper()
	file, err := os.Open("../Dockerfile.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	clean := t.TempDir()
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		if skip, err := ignored.MatchesOrParentMatches(name); err != nil || skip {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(clean, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return clean
}
