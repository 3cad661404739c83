//go:build zz

package projections_test

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

func TestZZQ(t *testing.T) {
	opts, _ := driver.ParseDSN("clickhouse://127.0.0.1:39000/system")
	conn, err := driver.Open(opts)
	must(t, err)
	ctx := context.Background()
	for _, q := range []string{
		"CREATE DATABASE IF NOT EXISTS zz",
		"CREATE TABLE IF NOT EXISTS zz.kv (k String, v String) ENGINE=MergeTree ORDER BY k",
		"CREATE TABLE IF NOT EXISTS zz.kvw (k String, v String, a1 String,a2 String,a3 String,a4 String,a5 String,a6 String,a7 String,a8 String,a9 String,a10 String,a11 String,a12 String,a13 String,a14 String) ENGINE=MergeTree ORDER BY k",
		"INSERT INTO zz.kv SELECT 'k1','v1' WHERE (SELECT count() FROM zz.kv)=0",
		"INSERT INTO zz.kvw (k,v) SELECT 'k1','v1' WHERE (SELECT count() FROM zz.kvw)=0",
		"CREATE TABLE IF NOT EXISTS zz.mem (k String, v String) ENGINE=Memory",
	} {
		must(t, conn.Exec(ctx, q))
	}
	ev := func(cols string) string {
		return fmt.Sprintf("SELECT "+cols+" FROM lumenhook.events WHERE account_id='%s' AND created_at = fromUnixTimestamp64Milli(%d, 'UTC') AND event_id = '%s' LIMIT 1", generatedAccount(7), startMillis+int64(7), generatedEvent(7))
	}
	ev2 := fmt.Sprintf("SELECT type, endpoint_id, watch_id, wallet_address, body FROM lumenhook.events WHERE account_id='%s' AND created_at = toDateTime64('2026-09-21 14:13:20.007', 3, 'UTC') AND event_id = '%s' LIMIT 1", generatedAccount(7), generatedEvent(7))
	ev3 := fmt.Sprintf("SELECT type, endpoint_id, watch_id, wallet_address, body FROM lumenhook.events WHERE (account_id,created_at,event_id) = ('%s', fromUnixTimestamp64Milli(%d, 'UTC'), '%s') LIMIT 1", generatedAccount(7), startMillis+int64(7), generatedEvent(7))
	ev4 := fmt.Sprintf("SELECT type, endpoint_id, watch_id, wallet_address, body FROM lumenhook.events PREWHERE account_id='%s' AND created_at = fromUnixTimestamp64Milli(%d, 'UTC') AND event_id = '%s' LIMIT 1", generatedAccount(7), startMillis+int64(7), generatedEvent(7))
	ev5 := strings.Replace(ev("type, endpoint_id, watch_id, wallet_address, body"), " LIMIT 1", "", 1)
	_, _, _, _ = ev2, ev3, ev4, ev5
	qs := map[string]string{}
	at := 7
	at_ := func(db string) string {
		return fmt.Sprintf("SELECT number, run, sent_at, duration_ms, status_code, error, response_body FROM "+db+".attempts WHERE endpoint_id = '%s' AND sent_at IN (fromUnixTimestamp64Milli(%d, 'UTC'), fromUnixTimestamp64Milli(%d, 'UTC')) AND event_id = '%s' AND version <= 1000000", generatedEndpoint(at%1000), startMillis+int64(at)+50, startMillis+int64(at)+30050, generatedEvent(at))
	}
	pre := func(q string) string { return strings.Replace(q, "WHERE", "PREWHERE", 1) }
	for _, db := range strings.Fields(os.Getenv("ZZDBS")) {
		e := strings.ReplaceAll(ev("type, endpoint_id, watch_id, wallet_address, body"), "lumenhook.", db+".")
		if os.Getenv("ZZX") != "attempts" {
		qs["ev1-"+db] = strings.ReplaceAll(ev("body"), "lumenhook.", db+".")
		qs["ev5-"+db] = e
		qs["ev5p-"+db] = pre(e)
		}
		if os.Getenv("ZZX") != "events" {
		qs["at-"+db] = at_(db)
		qs["atp-"+db] = pre(at_(db))
		}
	}
	set := driver.Settings{"max_threads": 1}
	for _, kv := range strings.Fields(os.Getenv("ZZS")) {
		k, v, _ := strings.Cut(kv, "=")
		set[k] = v
	}
	var names []string
	for n := range qs {
		names = append(names, n)
	}
	slices.Sort(names)
	took := map[string][]float64{}
	cpu := map[string]int64{}
	pid := os.Getenv("ZZPID")
	ticks := func() int64 {
		b, _ := os.ReadFile("/proc/" + pid + "/schedstat")
		_ = b
		var s int64
		ts, _ := os.ReadDir("/proc/" + pid + "/task")
		for _, e := range ts {
			b, _ := os.ReadFile("/proc/" + pid + "/task/" + e.Name() + "/schedstat")
			f := strings.Fields(string(b))
			if len(f) > 0 {
				n, _ := strconv.ParseInt(f[0], 10, 64)
				s += n
			}
		}
		return s
	}
	for range 20 {
		for _, i := range rand.Perm(len(names)) {
			n := names[i]
			c0 := ticks()
			for range 10 {
				b := time.Now()
				rows, err := conn.Query(driver.Context(ctx, driver.WithSettings(set)), qs[n])
				must(t, err)
				for rows.Next() {
				}
				must(t, rows.Err())
				rows.Close()
				took[n] = append(took[n], float64(time.Since(b).Microseconds())/1000)
			}
			cpu[n] += ticks() - c0
		}
	}
	for _, n := range names {
		slices.Sort(took[n])
		fmt.Printf("%-14s p25 %.2f p50 %.2f cpu %.2f ms\n", n, took[n][50], took[n][100], float64(cpu[n])/200/1e6)
	}
}
