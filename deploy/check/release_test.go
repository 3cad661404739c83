package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

var linked = regexp.MustCompile(`-X (\S+?)=(\S*)`)

// linkedBy returns the program's variables that linker flags set, with their values.
func linkedBy(flags string) map[string]string {
	set := make(map[string]string)
	for _, m := range linked.FindAllStringSubmatch(flags, -1) {
		set[m[1]] = strings.Trim(m[2], `"`)
	}
	return set
}

// filled returns a release template filled in for a tag.
func filled(t *testing.T, text string) string {
	t.Helper()
	parsed, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, map[string]any{
		"Version": "9.8.7",
		"Tag":     "v9.8.7", "FullCommit": "0123456789abcdef", "CommitDate": "2026-11-22T09:00:00Z",
		"IsSnapshot": false, "IsGitDirty": true, "CommitTimestamp": "1795338000",
		"ProjectName": "lumenhook", "Os": "linux", "Arch": "amd64",
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheRelease(t *testing.T) {
	recipe := theRecipe(t)
	command, err := buildCommand()
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range buildArguments {
		name, value, _ := strings.Cut(variable, "=")
		command = strings.ReplaceAll(command, "$"+name, value)
	}
	want := linkedBy(command)
	if len(want) != 4 {
		t.Fatalf("the image links %v", want)
	}
	platforms := make(map[string][]string)
	for _, b := range recipe.Builds {
		flags := filled(t, strings.Join(b.Ldflags, " "))
		if got := linkedBy(flags); len(got) != len(want) {
			t.Errorf("%s links %v", b.ID, got)
		}
		for name, value := range linkedBy(flags) {
			if want[name] != value {
				t.Errorf("%s links %s=%s, the image %q", b.ID, name, value, want[name])
			}
		}
		if !slices.Contains(b.Env, "CGO_ENABLED=0") || !slices.Contains(b.Flags, "-trimpath") ||
			b.ModTimestamp == "" {
			t.Errorf("%s is not built alike everywhere", b.ID)
		}
		if _, err := os.Stat(filepath.Join(root, b.Main)); err != nil {
			t.Error(err)
		}
		for _, system := range b.Goos {
			for _, machine := range b.Goarch {
				platforms[b.ID] = append(platforms[b.ID], system+"/"+machine)
			}
		}
		if static := slices.Contains(b.Tags, "noengine"); static != (b.ID == "static") {
			t.Errorf("%s: static %v", b.ID, static)
		}
	}
	if !slices.Equal(platforms["static"],
		[]string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}) {
		t.Errorf("the static builds are for %v", platforms["static"])
	}
	if !slices.Contains(recipe.Before.Hooks, "make shell-files") {
		t.Errorf("before it builds, it runs %q", recipe.Before.Hooks)
	}
	makeShellFiles(t)
	if len(recipe.NFPMs) != 1 || !slices.Equal(recipe.NFPMs[0].IDs, []string{"engine"}) ||
		!slices.Equal(recipe.NFPMs[0].Formats, []string{"deb", "rpm"}) {
		t.Errorf("the packages are %+v", recipe.NFPMs)
	}
	archived(t, recipe, platforms)
	if recipe.Checksum.Algorithm != "sha256" || len(recipe.SBOMs) != 1 ||
		recipe.SBOMs[0].Artifacts != "archive" || recipe.SBOMs[0].Cmd != "syft" {
		t.Fatalf("checksums %+v, lists of contents %+v", recipe.Checksum, recipe.SBOMs)
	}
}

func makeShellFiles(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("make", "-C", root, "shell-files").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

var links = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)

// holdsWhatTheReadmeNames checks that the files of an archive exist, and that no link in its
// README leads out of the archive.
func holdsWhatTheReadmeNames(t *testing.T, a config.Archive) {
	t.Helper()
	held := make(map[string]bool)
	for _, f := range a.Files {
		found, err := filepath.Glob(filepath.Join(root, f.Source))
		if err != nil || len(found) == 0 {
			t.Errorf("%s: no file is %s (%v)", a.ID, f.Source, err)
		}
		for _, path := range found {
			held[filepath.Clean(path)] = true
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links.FindAllStringSubmatch(string(readme), -1) {
		if !held[filepath.Join(root, link[1])] {
			t.Errorf("%s holds no %s, which its README names", a.ID, link[1])
		}
	}
}

// archived checks that every build is in exactly one archive with a unique name, and that its
// files exist.
func archived(t *testing.T, recipe config.Project, platforms map[string][]string) {
	t.Helper()
	names := make(map[string]bool)
	for _, a := range recipe.Archives {
		for _, id := range a.IDs {
			if len(platforms[id]) == 0 {
				t.Errorf("the archive %s holds the build %s, which there is not", a.ID, id)
			}
			delete(platforms, id)
		}
		if name := filled(t, a.NameTemplate); names[name] {
			t.Errorf("two archives are named %s", name)
		} else {
			names[name] = true
		}
		holdsWhatTheReadmeNames(t, a)
	}
	if len(platforms) > 0 {
		t.Errorf("in no archive: %v", platforms)
	}
}
