//go:build zz

package projections_test

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

func TestZZEv(t *testing.T) {
	opts, _ := driver.ParseDSN("clickhouse://127.0.0.1:39000/system")
	conn, err := driver.Open(opts)
	must(t, err)
	var l []string
	for k := range 400 {
		l = append(l, generatedEvent(5000000/2-7-k*10))
	}
	q := "SELECT event_id, standing FROM lumenhook.deliveries PREWHERE event_id IN ['" + strings.Join(l, "','") + "']"
	set := driver.Settings{"max_threads": 1}
	for _, kv := range strings.Fields(os.Getenv("ZZS")) {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	sum := map[string]int64{}
	const n = 20
	for range n {
		c := driver.Context(context.Background(), driver.WithSettings(set), driver.WithProfileEvents(func(es []driver.ProfileEvent) {
			for _, e := range es {
				if e.Type == "increment" {
					sum[e.Name] += e.Value
				}
			}
		}))
		rows, err := conn.Query(c, q)
		must(t, err)
		for rows.Next() {
		}
		must(t, rows.Err())
		rows.Close()
	}
	var ns []string
	for k, v := range sum {
		ns = append(ns, fmt.Sprintf("%-45s %.1f", k, float64(v)/n))
	}
	sort.Strings(ns)
	fmt.Println(strings.Join(ns, "\n"))
}
