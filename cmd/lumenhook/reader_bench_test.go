package main

import (
	"fmt"
	"os"
	"testing"
)

// BenchmarkReader measures the queries of docs/guides/connect-a-tool.md as an analyst's tool runs
// them: as the reader, through ClickHouse's HTTP port, on the traffic of `lumenhook devnet load`.
//
//	make bench-reader
func BenchmarkReader(b *testing.B) {
	s := &testService{t: b, dir: b.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--balance-moves", "--log-level", "error")
	defer s.interrupt()
	s.must("devnet", "load", "--payments", "5000", "--rate", "200", "--watches", "20",
		"--fail-ratio", "0.1")
	page, err := os.ReadFile("../../docs/guides/connect-a-tool.md")
	if err != nil {
		b.Fatal(err)
	}
	for i, q := range question.FindAllStringSubmatch(string(page), -1) {
		b.Run(fmt.Sprintf("question %d", i+1), func(b *testing.B) {
			s := *s
			s.t = b
			s.measure("query-ms", max(20, b.N), func() { s.ask(s.file.ClickHouse.Reader, q[1], "") })
			b.ReportMetric(0, "ns/op")
		})
	}
}
