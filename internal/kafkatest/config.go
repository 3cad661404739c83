package kafkatest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	clientListener     = "CLIENT"
	controllerListener = "CONTROLLER"
	mutualListener     = "MUTUAL"
)

// timings make the cluster detect a dead broker within seconds, as docs/decisions/real-kafka.md
// also recommends for production. They omit the delays that help large clusters.
var timings = map[string]string{
	"broker.session.timeout.ms":                                   "4000",
	"broker.heartbeat.interval.ms":                                "1000",
	"group.initial.rebalance.delay.ms":                            "0",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
	"controlled.shutdown.enable":                                  "true",
	"log.cleaner.backoff.ms":                                      "500",
}

func (c *Cluster) properties(n *Node) map[string]string {
	replicas := min(3, len(c.nodes))
	minISR := max(1, replicas-1)
	p := map[string]string{
		"process.roles":              "broker,controller",
		"node.id":                    strconv.Itoa(n.id),
		"controller.quorum.voters":   c.voters(),
		"controller.listener.names":  controllerListener,
		"inter.broker.listener.name": clientListener,
		"listeners": clientListener + "://" + n.clientAddr + "," +
			controllerListener + "://" + n.controllerAddr,
		"advertised.listeners": clientListener + "://" + n.clientAddr,
		"listener.security.protocol.map": clientListener + ":" + c.protocol() + "," + controllerListener +
			":PLAINTEXT",
		"log.dirs":                   filepath.Join(n.dir, "data"),
		"auto.create.topics.enable":  "false",
		"num.partitions":             "1",
		"default.replication.factor": strconv.Itoa(replicas),
		"min.insync.replicas":        strconv.Itoa(minISR),
		// Internal topics get few partitions, because each costs files and elections.
		"offsets.topic.num.partitions":             "4",
		"offsets.topic.replication.factor":         strconv.Itoa(replicas),
		"transaction.state.log.num.partitions":     "4",
		"transaction.state.log.replication.factor": strconv.Itoa(replicas),
		"transaction.state.log.min.isr":            strconv.Itoa(minISR),
	}
	maps.Copy(p, timings)
	if c.cfg.Secure {
		maps.Copy(p, c.security.properties())
		for _, list := range []string{"listeners", "advertised.listeners"} {
			p[list] += "," + mutualListener + "://" + n.mutualAddr
		}
		p["listener.security.protocol.map"] += "," + mutualListener + ":SSL"
	}
	if c.cfg.Tiered {
		maps.Copy(p, c.remoteStorage(replicas))
	}
	maps.Copy(p, c.cfg.Properties)
	return p
}

func (c *Cluster) remoteStorage(replicas int) map[string]string {
	const (
		storage  = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
		metadata = "rlmm.config.remote.log.metadata.topic."
	)
	return map[string]string{
		"remote.log.storage.system.enable":          "true",
		"remote.log.storage.manager.class.name":     storage,
		"remote.log.storage.manager.class.path":     filepath.Join(c.tiered, "*"),
		"rsm.config.dir":                            c.RemoteDir(),
		"remote.log.metadata.manager.listener.name": clientListener,
		metadata + "num.partitions":                 "1",
		metadata + "replication.factor":             strconv.Itoa(replicas),
		"remote.log.manager.task.interval.ms":       "500",
		"log.retention.check.interval.ms":           "500",
		"log.initial.task.delay.ms":                 "500",
	}
}

func (c *Cluster) voters() string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, fmt.Sprintf("%d@%s", n.id, n.controllerAddr))
	}
	return strings.Join(list, ",")
}

func (c *Cluster) protocol() string {
	if c.cfg.Secure {
		return "SASL_SSL"
	}
	return "PLAINTEXT"
}

func writeProperties(path string, p map[string]string) error {
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", key, escape.Replace(p[key]))
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

const logging = `status = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %m (%c{1})%n%ex{3}
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
`
