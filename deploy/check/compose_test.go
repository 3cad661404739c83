package check

import (
	"cmp"
	"encoding/xml"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// composed loads the compose file with only the variables in .env.example.
func composed(t *testing.T) *types.Project {
	t.Helper()
	var env []string
	for name := range environmentFile(t, "../compose/.env.example") {
		env = append(env, name+"=drawn")
	}
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"},
		cli.WithWorkingDirectory("../compose"), cli.WithEnv(env), cli.WithProfiles([]string{"*"}),
		cli.WithConsistency(true), cli.WithNormalization(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// ours reports whether a service runs the program.
func ours(s types.ServiceConfig) bool { return s.Build != nil }

func TestComposeIsPinnedAndClosed(t *testing.T) {
	project := composed(t)
	var pom struct {
		Version string `xml:"version"`
	}
	text, err := os.ReadFile("../kafka/pom.xml")
	if err != nil || xml.Unmarshal(text, &pom) != nil {
		t.Fatal(err)
	}
	if !project.Networks["backend"].Internal {
		t.Error("the network of the brokers is open")
	}
	brokers := 0
	for name, s := range project.Services {
		if !ours(s) && !pinned.MatchString(s.Image) {
			t.Errorf("%s: %s is not pinned by version and digest", name, s.Image)
		}
		if image, tag, _ := strings.Cut(s.Image, ":"); image == "apache/kafka" {
			version, _, _ := strings.Cut(tag, "@")
			brokers++
			if version != pom.Version ||
				!slices.Equal(slices.Collect(maps.Keys(s.Networks)), []string{"backend"}) {
				t.Errorf("%s: Kafka %s in %v; tests run on %s", name, version, s.Networks, pom.Version)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to everybody", name, port.Published)
			}
		}
		for _, mount := range s.Volumes {
			if _, err := os.Stat(mount.Source); mount.Type == types.VolumeTypeBind && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if brokers != 3 {
		t.Errorf("%d brokers", brokers)
	}
	for name, c := range project.Configs {
		if _, err := os.Stat(c.File); err != nil {
			t.Errorf("config %s: %v", name, err)
		}
	}
}

// placeOf returns the environment in which a service's command runs.
func placeOf(t *testing.T, project *types.Project, s types.ServiceConfig) place {
	t.Helper()
	p := place{name: s.Name, env: make(map[string]string), paths: make(map[string]string)}
	for name, value := range s.Environment {
		p.env[name] = *value
	}
	for _, c := range s.Configs {
		p.paths[c.Target] = project.Configs[c.Source].File
	}
	for _, mount := range s.Volumes {
		if mount.Source == "secrets" {
			p.paths[mount.Target] = t.TempDir()
			if s.Name != "master-key" {
				secret(t, p.paths[mount.Target], "master-key")
			}
		}
	}
	return p
}

// The program must accept each of its commands, and every role must have a service.
func TestComposeStartsEveryRole(t *testing.T) {
	project := composed(t)
	var started []string
	for name, s := range project.Services {
		if !ours(s) {
			continue
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		settings, err := placeOf(t, project, s).accepts(s.Command)
		if err != nil {
			t.Error(err)
		}
		if settings == nil {
			if s.HealthCheck == nil || !s.HealthCheck.Disable {
				t.Errorf("%s: the image's question is asked of what ends by itself", name)
			}
			continue
		}
		asksHowItIs(t, placeOf(t, project, s), s, settings)
		started = append(started, strings.Trim(settings["roles"], "[]"))
		endsInTime(t, name, settings, time.Duration(*s.StopGracePeriod), 0)
		if !slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Target == settings["data-dir"] && v.Source == ""
		}) {
			t.Errorf("%s: %s is no volume of its own", name, settings["data-dir"])
		}
		for _, port := range s.Ports {
			if _, listens, _ := strings.Cut(settings["api-listen"], ":"); port.Target == 8080 &&
				listens != "8080" {
				t.Errorf("%s publishes 8080 and listens at %s", name, settings["api-listen"])
			}
		}
	}
	slices.Sort(started)
	if !slices.Equal(started, roles(t)) {
		t.Errorf("the services do %v", started)
	}
}

// asksHowItIs checks that the health check of a service queries the address in its configuration,
// and allows enough time for the answer.
func asksHowItIs(t *testing.T, p place, s types.ServiceConfig, settings map[string]string) {
	t.Helper()
	if s.HealthCheck == nil || len(s.HealthCheck.Test) < 3 {
		t.Errorf("%s: is not asked how it is", s.Name)
		return
	}
	p.env = nil // the health check uses none of the variables
	asked := s.HealthCheck.Test
	_, err := p.accepts(asked[2:])
	if err != nil || asked[0] != "CMD" || asked[1] != "/lumenhook" {
		t.Errorf("%s: asked is by %q: %v", s.Name, asked, err)
	}
	if i := slices.Index(asked, "--config"); i < 0 || settings["config"] != p.here(asked[i+1]) {
		t.Errorf("%s: asked is %q, and its file is %s", s.Name, asked, settings["config"])
	}
	if given := time.Duration(*s.HealthCheck.Timeout); given < 10*time.Second {
		t.Errorf("%s: is asked for %v, and the command for 10 s", s.Name, given)
	}
}

// The cluster must have the settings in docs/decisions/real-kafka.md.
func TestComposeSetsTheClusterUp(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "decisions", "real-kafka.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## What the cluster should be set to")
	rows := regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| (\\d+) \\|").FindAllStringSubmatch(table, -1)
	if !found || len(rows) < 3 {
		t.Fatalf("the page has %d settings", len(rows))
	}
	project := composed(t)
	for _, row := range rows {
		variable := "KAFKA_" + strings.ToUpper(strings.ReplaceAll(row[1], ".", "_"))
		for _, name := range []string{"kafka-1", "kafka-2", "kafka-3"} {
			if set := project.Services[name].Environment[variable]; set == nil || *set != row[2] {
				t.Errorf("%s: %s is not %s", name, variable, row[2])
			}
		}
	}
}

// Prometheus must scrape the services of all roles at their addresses, and load the rules.
func TestComposeIsScraped(t *testing.T) {
	var config struct {
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			DNS []struct {
				Names []string `json:"names"`
				Port  int      `json:"port"`
			} `json:"dns_sd_configs"`
		} `json:"scrape_configs"`
	}
	text, err := os.ReadFile("../compose/prometheus.yaml")
	if err != nil || yaml.Unmarshal(text, &config) != nil {
		t.Fatal(err)
	}
	project := composed(t)
	asked := config.ScrapeConfigs[0].DNS[0]
	names := slices.Sorted(slices.Values(asked.Names))
	if !slices.Equal(names, roles(t)) || asked.Port != 9464 {
		t.Errorf("asked are %v at port %d", names, asked.Port)
	}
	var settings map[string]any
	text, err = os.ReadFile("../compose/lumenhook.yaml")
	if err != nil || yaml.Unmarshal(text, &settings) != nil ||
		settings["metrics-listen"] != "0.0.0.0:9464" {
		t.Errorf("roles have metrics at %v (%v)", settings["metrics-listen"], err)
	}
	for _, c := range project.Services["prometheus"].Configs {
		if c.Source == "rules" && !slices.Equal(config.RuleFiles, []string{c.Target}) {
			t.Errorf("the rules are %v, and at %s", config.RuleFiles, c.Target)
		}
	}
}

// Grafana must read the history as the user that ClickHouse has for it.
func TestComposeHasAReaderOfTheHistory(t *testing.T) {
	type user struct {
		Password struct {
			FromEnv string `xml:"from_env,attr"`
		} `xml:"password"`
		Profile string   `xml:"profile"`
		Grants  []string `xml:"grants>query"`
	}
	var file struct {
		XMLName  xml.Name `xml:"clickhouse"`
		Profiles struct {
			Reader struct {
				Readonly int `xml:"readonly"`
			} `xml:"reader"`
		} `xml:"profiles"`
		Users struct {
			Reader user `xml:"reader"`
		} `xml:"users"`
	}
	text, err := os.ReadFile("../compose/clickhouse/reader.xml")
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	services, reader := composed(t).Services, file.Users.Reader
	given, asked := services["clickhouse"].Environment[reader.Password.FromEnv],
		services["grafana"].Environment["LUMENHOOK_CLICKHOUSE_PASSWORD"]
	if given == nil || asked == nil || *given != *asked ||
		*services["grafana"].Environment["LUMENHOOK_CLICKHOUSE_USER"] != "reader" {
		t.Errorf("the reader's password is %q of ClickHouse, and Grafana has another",
			reader.Password.FromEnv)
	}
	if reader.Profile != "reader" || file.Profiles.Reader.Readonly == 0 ||
		!slices.Equal(reader.Grants, []string{
			"GRANT SELECT ON lumenhook.*", "GRANT SELECT ON system.processes",
		}) {
		t.Errorf("the reader may do too much or nothing: %+v", reader)
	}
}

// Every variable in Grafana's provisioning must be set, and every folder mounted.
func TestComposeProvisionsGrafana(t *testing.T) {
	grafana := composed(t).Services["grafana"]
	var provisioning strings.Builder
	for _, path := range []string{"datasources/lumenhook.yaml", "dashboards/lumenhook.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "grafana", "provisioning", path))
		if err != nil {
			t.Fatal(err)
		}
		provisioning.Write(text)
	}
	variables := regexp.MustCompile(`\$\{(\w+)\}`)
	for _, m := range variables.FindAllStringSubmatch(provisioning.String(), -1) {
		if grafana.Environment[m[1]] == nil {
			t.Errorf("%s is not set", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^      path: (\S+)$`).FindAllStringSubmatch(
		provisioning.String(), -1,
	) {
		if !slices.ContainsFunc(grafana.Volumes, func(v types.ServiceVolumeConfig) bool {
			return cmp.Or(v.Target, "/") == m[1] || strings.HasPrefix(v.Target, m[1]+"/")
		}) {
			t.Errorf("nothing is mounted at %s", m[1])
		}
	}
}
