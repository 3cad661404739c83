package check

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dario.cat/mergo"
	"github.com/goreleaser/goreleaser/v2/pkg/config"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
	"github.com/sassoftware/go-rpmutils"
	"sigs.k8s.io/yaml"
)

func theRecipe(t *testing.T) config.Project {
	t.Helper()
	file, err := os.Open(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	recipe, err := config.LoadReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return recipe
}

// writePackage writes the package in .goreleaser.yaml with the library that GoReleaser uses.
func writePackage(t *testing.T, to io.Writer, format, version, program string) {
	t.Helper()
	recipe := theRecipe(t).NFPMs[0]
	parts := recipe.NFPMOverridables
	if err := mergo.Merge(&parts, recipe.Overrides[format], mergo.WithOverride); err != nil {
		t.Fatal(err)
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: parts.PackageName, Arch: "amd64", Platform: "linux", Version: version,
		Section: recipe.Section, Maintainer: recipe.Maintainer, Description: recipe.Description,
		Homepage: recipe.Homepage, License: recipe.License,
		Overridables: nfpm.Overridables{
			Depends: parts.Dependencies,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(root, parts.Scripts.PostInstall),
				PreRemove:   filepath.Join(root, parts.Scripts.PreRemove),
				PostRemove:  filepath.Join(root, parts.Scripts.PostRemove),
			},
			Contents: files.Contents{{
				Source:      program,
				Destination: path.Join(recipe.Bindir, "lumenhook"),
				FileInfo:    &files.ContentFileInfo{Mode: 0o755},
			}},
			Deb: nfpm.Deb{Compression: "none"}, // makes the test faster
			RPM: nfpm.RPM{Compression: cmp.Or(parts.RPM.Compression, "gzip:1")},
		},
	})
	for _, c := range parts.Contents {
		if c.Packager == "" || c.Packager == format {
			info.Contents = append(info.Contents, &files.Content{
				Source:      filepath.Join(root, c.Source),
				Destination: c.Destination,
				Type:        c.Type,
			})
		}
	}
	packager, err := nfpm.Get(format)
	if err == nil {
		err = nfpm.PrepareForPackager(info, format)
	}
	if err == nil {
		err = packager.Package(info, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// inEveryPackage contains some of a package's files with their modes.
var inEveryPackage = map[string]os.FileMode{
	"/usr/bin/lumenhook":                                  0o755,
	"/usr/share/lumenhook/run.yaml":                       0o644,
	"/usr/lib/systemd/system/lumenhook.service":           0o644,
	"/usr/lib/systemd/system/lumenhook-backup.service":    0o644,
	"/usr/lib/systemd/system/lumenhook-backup.timer":      0o644,
	"/usr/lib/sysusers.d/lumenhook.conf":                  0o644,
	"/usr/share/bash-completion/completions/lumenhook":    0o644,
	"/usr/share/fish/vendor_completions.d/lumenhook.fish": 0o644,
	"/usr/share/man/man1/lumenhook-run.1":                 0o644,
	"/usr/share/man/man1/lumenhook.1":                     0o644,
	"/usr/share/doc/lumenhook/lumenhook.rules.yaml":       0o644,
	"/usr/share/doc/lumenhook/lumenhook.dashboard.json":   0o644,
	"/usr/share/doc/lumenhook/copyright":                  0o644,
}

// The .rpm must contain the files of the .deb, which TestThePackage installs, and replace no
// configuration.
func TestTheRPM(t *testing.T) {
	makeShellFiles(t)
	program := filepath.Join(t.TempDir(), "lumenhook")
	write(t, program, "a program")
	file, err := os.Create(filepath.Join(t.TempDir(), "lumenhook.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	writePackage(t, file, "rpm", "9.8.7", program)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	header, err := rpmutils.ReadHeader(file)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	missing := make(map[string]bool)
	for name := range inEveryPackage {
		missing[name] = true
	}
	for _, f := range listed {
		name := f.Name()
		delete(missing, name)
		if mode := inEveryPackage[name]; mode != 0 && os.FileMode(f.Mode()).Perm() != mode ||
			f.UserName() != "root" || f.GroupName() != "root" {
			t.Errorf("%s is %s's with mode %o", name, f.UserName(), f.Mode())
		}
		keeps := rpmutils.RPMFILE_CONFIG | rpmutils.RPMFILE_NOREPLACE
		if isConfig := strings.HasPrefix(name, "/etc/"); isConfig != (f.Flags()&keeps == keeps) {
			t.Errorf("%s has flags %b", name, f.Flags())
		}
	}
	if len(missing) > 0 {
		t.Errorf("it lacks %v", missing)
	}
	if needs, err := header.GetStrings(rpmutils.REQUIRENAME); err != nil ||
		!slices.Contains(needs, "systemd") {
		t.Errorf("it requires %v (%v)", needs, err)
	}
	for tag, does := range map[int]string{
		rpmutils.POSTIN: "systemd-sysusers", rpmutils.PREUN: "disable --now",
		rpmutils.POSTUN: "daemon-reload",
	} {
		text, err := header.GetString(tag)
		if err != nil || !strings.Contains(text, does) {
			t.Errorf("script %d is %q (%v)", tag, text, err)
		}
	}
	if name := fmt.Sprint(header.GetNEVRA()); !strings.Contains(name, "lumenhook-0:9.8.7-1") {
		t.Errorf("it is %s", name)
	}
}

// The page about one machine must download the engine that the package pins. Its Prometheus must
// load the package's rules and scrape the service's default address.
func TestThePageFitsThePackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "operate", "one-machine.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	help, err := os.ReadFile(filepath.Join(root, "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	fetch := regexp.MustCompile(`npm pack \S+-gnu@([0-9a-z.-]+)`).FindStringSubmatch(string(help))
	if fetch == nil || !strings.Contains(page, "`"+fetch[0]+"`") ||
		!strings.Contains(page, "-"+fetch[1]+".tgz") {
		t.Errorf("the page does not say %q, as the help does", fetch)
	}
	_, block, _ := strings.Cut(page, "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var prometheus struct {
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			Job     string                       `json:"job_name"`
			Statics []struct{ Targets []string } `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict([]byte(block), &prometheus); err != nil {
		t.Fatalf("%v in\n%s", err, block)
	}
	targets := prometheus.ScrapeConfigs[0].Statics[0].Targets
	if !strings.Contains(string(help), `"`+targets[0]+`"`) {
		t.Errorf("no command listens at %v by default", targets)
	}
	folder, file := filepath.Split(prometheus.RuleFiles[0])
	config, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil || !strings.Contains(string(config), "dst: "+folder+"}") {
		t.Errorf("the package has no %s (%v)", folder, err)
	}
	if _, err := os.Stat(filepath.Join(root, "deploy", "monitoring", file)); err != nil {
		t.Error(err)
	}
}
