// Package kafka carries the pinned Apache Kafka that the tests run against. It
// hides where the files lie; README.md says how they are renewed.
package kafka

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"strings"
)

//go:embed pom.xml
var pom []byte

//go:embed SHA256SUMS
var sums string

//go:embed tiered/pom.xml
var tieredPOM []byte

//go:embed tiered/SHA256SUMS
var tieredSums string

// Pin is the version to run, and what every file of it must be.
type Pin struct {
	Version string
	POM     []byte
	SHA256  map[string]string // by file name, lower-case hex
}

// Pinned returns the pin of Kafka. The error says which of its files is wrong.
func Pinned() (Pin, error) { return pinned(pom, sums, "kafka_2.13-%s.jar") }

// Tiered returns the pin of what brokers of tests keep tiered topics with, beside Kafka.
func Tiered() (Pin, error) { return pinned(tieredPOM, tieredSums, "kafka-storage-%s-test.jar") }

func pinned(pom []byte, sums, main string) (Pin, error) {
	var project struct {
		Version string `xml:"version"`
	}
	if err := xml.Unmarshal(pom, &project); err != nil {
		return Pin{}, fmt.Errorf("reading deploy/kafka/pom.xml: %w", err)
	}
	p := Pin{
		Version: project.Version,
		POM:     pom,
		SHA256:  make(map[string]string),
	}
	for line := range strings.Lines(sums) {
		fields := strings.Fields(line)
		if len(fields) != 2 || len(fields[0]) != 64 {
			return Pin{}, fmt.Errorf("deploy/kafka/SHA256SUMS: %q is no hash and file name", line)
		}
		p.SHA256[fields[1]] = fields[0]
	}
	if jar := fmt.Sprintf(main, p.Version); p.SHA256[jar] == "" {
		return Pin{}, fmt.Errorf("deploy/kafka/SHA256SUMS does not list %s", jar)
	}
	return p, nil
}
