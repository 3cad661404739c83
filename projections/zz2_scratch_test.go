//go:build zz

package projections_test

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

type variant struct {
	name string
	db   string
	set  driver.Settings
}

func TestZZAB(t *testing.T) {
	opts, err := driver.ParseDSN("clickhouse://127.0.0.1:39000/system")
	must(t, err)
	conn, err := driver.Open(opts)
	must(t, err)
	ctx := context.Background()
	const events = 5_000_000
	base := driver.Settings{"max_threads": 1}
	with := func(kv ...any) driver.Settings {
		s := driver.Settings{"max_threads": 1}
		for i := 0; i < len(kv); i += 2 {
			s[kv[i].(string)] = kv[i+1]
		}
		return s
	}
	var vs []variant
	for _, n := range strings.Split(os.Getenv("ZZV"), " ") {
		switch {
		case strings.HasPrefix(n, "db:"):
			vs = append(vs, variant{n, n[3:], base})
		case n == "base":
			vs = append(vs, variant{n, "lumenhook", base})
		default:
			var kv []any
			db := "lumenhook"
			for _, p := range strings.Split(n, ",") {
				k, v, _ := strings.Cut(p, "=")
				if k == "db" {
					db = v
					continue
				}
				kv = append(kv, k, v)
			}
			vs = append(vs, variant{n, db, with(kv...)})
		}
	}
	cols := "toUInt64(bitShiftRight(standing, 64)), toUInt8(bitAnd(bitShiftRight(standing, 48), 7)), toInt64(bitAnd(standing, 281474976710655)), account_id, endpoint_id, created_at, updated_at, attempts, run, attempt_times"
	qs := map[string]func(db string, i int) string{
		"deliveries": func(db string, i int) string {
			return "SELECT " + cols + " FROM " + db + ".deliveries WHERE event_id = '" + generatedEvent(i) + "'"
		},
		"event": func(db string, i int) string {
			return fmt.Sprintf("SELECT type, endpoint_id, watch_id, wallet_address, body FROM "+db+".events WHERE account_id='%s' AND created_at = fromUnixTimestamp64Milli(%d, 'UTC') AND event_id = '%s' LIMIT 1", generatedAccount(i%10), startMillis+int64(i), generatedEvent(i))
		},
		"attempts": func(db string, i int) string {
			return fmt.Sprintf("SELECT number, run, sent_at, duration_ms, status_code, error, response_body FROM "+db+".attempts WHERE endpoint_id = '%s' AND sent_at IN (fromUnixTimestamp64Milli(%d, 'UTC'), fromUnixTimestamp64Milli(%d, 'UTC')) AND event_id = '%s' AND version <= 1000000", generatedEndpoint(i%1000), startMillis+int64(i)+50, startMillis+int64(i)+30050, generatedEvent(i))
		},
		"body":  func(db string, i int) string {
			return fmt.Sprintf("SELECT body FROM "+db+".events WHERE account_id='%s' AND created_at = fromUnixTimestamp64Milli(%d, 'UTC') AND event_id = '%s' LIMIT 1", generatedAccount(i%10), startMillis+int64(i), generatedEvent(i))
		},
	}
	only := os.Getenv("ZZQ")
	for name, q := range qs {
		if only != "" && !strings.Contains(only, name) {
			continue
		}
		took := make([][]float64, len(vs))
		cpu := make([]int64, len(vs))
		const n = 400
		for range n {
			at := rand.Intn(events)
			for _, v := range rand.Perm(len(vs)) {
				if name == "deliveries" && vs[v].db != "lumenhook" { continue }
				c := driver.Context(ctx, driver.WithSettings(vs[v].set), driver.WithProfileEvents(func(es []driver.ProfileEvent) {
					for _, e := range es {
						if e.Type == "increment" && e.Name == "OSCPUVirtualTimeMicroseconds" {
							cpu[v] += e.Value
						}
					}
				}))
				b := time.Now()
				rows, err := conn.Query(c, q(vs[v].db, at))
				must(t, err)
				k := 0
				for rows.Next() {
					k++
				}
				must(t, rows.Err())
				rows.Close()
				if k == 0 {
					t.Fatal("no rows", vs[v].name, q(vs[v].db, at))
				}
				took[v] = append(took[v], float64(time.Since(b).Microseconds())/1000)
			}
		}
		for v := range vs {
			if len(took[v]) == 0 { continue }
			slices.Sort(took[v])
			fmt.Printf("%-12s %-50s p25 %.2f p50 %.2f p95 %.2f cpu %.0f µs\n", name, vs[v].name, took[v][n/4], took[v][n/2], took[v][n*95/100], float64(cpu[v])/n)
		}
	}
}
