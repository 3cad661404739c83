package kafkatest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The sample in deploy/kafka/server.properties must have the settings of the tests' brokers and of
// docs/decisions/real-kafka.md.
func TestTheSampleForOperatorsIsAsTested(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kafka/server.properties")
	if err != nil {
		t.Fatal(err)
	}
	sample := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found && line[0] != '#' {
			sample[key] = value
		}
	}
	c := &Cluster{nodes: make([]*Node, 3)}
	for i := range c.nodes {
		c.nodes[i] = &Node{cluster: c, id: i + 1}
	}
	want := c.properties(c.nodes[0])
	for _, key := range []string{
		"process.roles", "auto.create.topics.enable", "default.replication.factor",
		"min.insync.replicas", "offsets.topic.replication.factor",
		"transaction.state.log.replication.factor", "transaction.state.log.min.isr",
	} {
		if want[key] == "" || sample[key] != want[key] {
			t.Errorf("%s is %q, and %q in the tests", key, sample[key], want[key])
		}
	}
	page, err := os.ReadFile("../../docs/decisions/real-kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z.]+)` \\| (\\d+) \\|").
		FindAllStringSubmatch(string(page), -1)
	if len(rows) < 3 {
		t.Fatalf("the page has %d settings", len(rows))
	}
	for _, row := range rows {
		if sample[row[1]] != row[2] || timings[row[1]] != row[2] {
			t.Errorf("%s is %q, and %q in the tests, but the page says %s", row[1], sample[row[1]],
				timings[row[1]], row[2])
		}
	}
}
