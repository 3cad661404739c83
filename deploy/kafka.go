package deploy

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"strings"
)

//go:embed kafka/pom.xml
var kafkaPOM []byte

//go:embed kafka/SHA256SUMS
var kafkaSums string

//go:embed kafka/tiered/pom.xml
var tieredPOM []byte

//go:embed kafka/tiered/SHA256SUMS
var tieredSums string

// KafkaPin is the Apache Kafka that tests run against: its version, and the hash of every file of
// it. kafka/README.md says how it is renewed.
type KafkaPin struct {
	Version string
	POM     []byte
	SHA256  map[string]string // by file name, lower-case hex
}

// Kafka returns the pin of Kafka. The error says which of its files is wrong.
func Kafka() (KafkaPin, error) { return pinnedKafka(kafkaPOM, kafkaSums, "kafka_2.13-%s.jar") }

// TieredKafka returns the pin of what brokers of tests keep tiered topics with, besides Kafka.
func TieredKafka() (KafkaPin, error) {
	return pinnedKafka(tieredPOM, tieredSums, "kafka-storage-%s-test.jar")
}

func pinnedKafka(pom []byte, sums, main string) (KafkaPin, error) {
	var project struct {
		Version string `xml:"version"`
	}
	if err := xml.Unmarshal(pom, &project); err != nil {
		return KafkaPin{}, fmt.Errorf("reading deploy/kafka/pom.xml: %w", err)
	}
	p := KafkaPin{
		Version: project.Version,
		POM:     pom,
		SHA256:  make(map[string]string),
	}
	for line := range strings.Lines(sums) {
		fields := strings.Fields(line)
		if len(fields) != 2 || len(fields[0]) != 64 {
			return KafkaPin{}, fmt.Errorf("deploy/kafka/SHA256SUMS: %q is no hash and file name", line)
		}
		p.SHA256[fields[1]] = fields[0]
	}
	if jar := fmt.Sprintf(main, p.Version); p.SHA256[jar] == "" {
		return KafkaPin{}, fmt.Errorf("deploy/kafka/SHA256SUMS does not list %s", jar)
	}
	return p, nil
}
