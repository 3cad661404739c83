//go:build zz

package projections_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

func TestZZList(t *testing.T) {
	opts, _ := driver.ParseDSN("clickhouse://127.0.0.1:39000/system")
	conn, err := driver.Open(opts)
	must(t, err)
	ctx := context.Background()
	db := os.Getenv("ZZDB")
	set := driver.Settings{"max_threads": 1}
	for _, kv := range strings.Fields(os.Getenv("ZZS")) {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	const events = 5_000_000
	ids := func(i, n int) string {
		var l []string
		for k := range n {
			l = append(l, generatedEvent(events/2-7-i*100000-k*10))
		}
		return "['" + strings.Join(l, "','") + "']"
	}
	head := func(n int) func(int) string {
		return func(i int) string {
			at := int64(startMillis) + int64(events/2-i*100000)
			return fmt.Sprintf("SELECT event_id, type, endpoint_id, watch_id, wallet_address, created_at FROM "+db+".events WHERE account_id = '%s' AND created_at <= fromUnixTimestamp64Milli(%d, 'UTC') AND (created_at, event_id) < (fromUnixTimestamp64Milli(%d, 'UTC'), 'z') ORDER BY account_id DESC, created_at DESC, event_id DESC LIMIT %d", generatedAccount(7), at, at, n)
		}
	}
	qs := map[string]func(int) string{
		"heads51": head(51), "heads101": head(101), "heads400": head(400), "heads1000": head(1000),
		"standings51": func(i int) string { return "SELECT event_id, standing FROM " + "lumenhook" + ".deliveries PREWHERE event_id IN " + ids(i, 51) },
		"standings101": func(i int) string { return "SELECT event_id, standing FROM " + "lumenhook" + ".deliveries PREWHERE event_id IN " + ids(i, 101) },
		"standings400": func(i int) string { return "SELECT event_id, standing FROM " + "lumenhook" + ".deliveries PREWHERE event_id IN " + ids(i, 400) },
		"bodies50": func(i int) string {
			var times []string
			for k := range 50 {
				times = append(times, fmt.Sprintf("fromUnixTimestamp64Milli(%d, 'UTC')", startMillis+int64(events/2-7-i*100000-k*10)))
			}
			return "SELECT event_id, body FROM " + db + ".events WHERE account_id = '" + generatedAccount(3) + "' AND created_at IN (" + strings.Join(times, ",") + ") AND event_id IN " + ids(i, 50) + " LIMIT 1 BY event_id"
		},
		"bodies50-range": func(i int) string {
			return fmt.Sprintf("SELECT event_id, body FROM "+db+".events PREWHERE account_id = '"+generatedAccount(3)+"' AND created_at >= fromUnixTimestamp64Milli(%d, 'UTC') AND created_at <= fromUnixTimestamp64Milli(%d, 'UTC') AND event_id IN ", startMillis+int64(events/2-7-i*100000-490), startMillis+int64(events/2-7-i*100000)) + ids(i, 50)
		},
		"bodies50-where": func(i int) string {
			return fmt.Sprintf("SELECT event_id, body FROM "+db+".events PREWHERE account_id = '"+generatedAccount(3)+"' AND created_at >= fromUnixTimestamp64Milli(%d, 'UTC') AND created_at <= fromUnixTimestamp64Milli(%d, 'UTC')", startMillis+int64(events/2-7-i*100000-490), startMillis+int64(events/2-7-i*100000)) 
		},
		"bodies50-arr": func(i int) string {
			var times []string
			for k := range 50 {
				times = append(times, "'"+time.UnixMilli(startMillis+int64(events/2-7-i*100000-k*10)).UTC().Format("2006-01-02 15:04:05.000")+"'")
			}
			return "SELECT event_id, body FROM " + db + ".events PREWHERE account_id = '" + generatedAccount(3) + "' AND created_at IN CAST([" + strings.Join(times, ",") + "], 'Array(DateTime64(3))') AND event_id IN " + ids(i, 50)
		},
		"bodies50-inpre": func(i int) string {
			var times []string
			for k := range 50 {
				times = append(times, fmt.Sprintf("fromUnixTimestamp64Milli(%d, 'UTC')", startMillis+int64(events/2-7-i*100000-k*10)))
			}
			return "SELECT event_id, body FROM " + db + ".events PREWHERE account_id = '" + generatedAccount(3) + "' AND created_at IN (" + strings.Join(times, ",") + ") AND event_id IN " + ids(i, 50)
		},
		"standings400-max": func(i int) string { return "SELECT event_id, max(standing) FROM " + "lumenhook" + ".deliveries WHERE event_id IN " + ids(i, 400)+" GROUP BY event_id" },
		"standings200": func(i int) string { return "SELECT event_id, standing FROM " + "lumenhook" + ".deliveries PREWHERE event_id IN " + ids(i, 200) },
		"enabled": func(i int) string { return "SELECT endpoint_id, max(version), argMax(changed_at, version) FROM lumenhook.endpoint_changes WHERE endpoint_id IN ['a','b'] AND change = 'enabled' GROUP BY endpoint_id" },
	}
	var names []string
	for n := range qs {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if o := os.Getenv("ZZQ"); !strings.HasPrefix(n, o) { continue }
		c0 := zzCPU(os.Getenv("ZZPID"))
		rowsN := 0
		p50, p95, _ := med(20, func(i int) {
			rows, err := conn.Query(driver.Context(ctx, driver.WithSettings(set)), qs[n](i))
			must(t, err)
			for rows.Next() {
				rowsN++
			}
			must(t, rows.Err())
			rows.Close()
		})
		fmt.Printf("%-16s p50 %.2f p95 %.2f cpu %.2f rows %d\n", n, p50, p95, (zzCPU(os.Getenv("ZZPID"))-c0)/20, rowsN/20)
	}
}
