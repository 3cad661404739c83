package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

func (a *addresses) serving(config, secrets, prefix string) *role {
	a.t.Helper()
	r := &role{t: a.t, name: prefix, args: []string{
		"serve", "--roles", "api,engine,follower,projector,mailer", "--config", config, "--secrets-dir",
		secrets, "--topic-prefix", prefix, "--data-dir", filepath.Join(a.dir, "of-"+prefix),
	}}
	r.start()
	r.untilReady()
	return r
}

func (a *addresses) shopOf(r *role, config, secrets string) (key string) {
	a.t.Helper()
	var made apicli.MadeKey
	out := a.program("accounts", "create", "--email", "ops@shop.example", "--json", "--config", config,
		"--secrets-dir", secrets)
	if err := json.Unmarshal(out, &made); err != nil {
		a.t.Fatal(err)
	}
	c := a.clientOf(r, made.Key)
	r.until("the key is known", func() bool {
		_, err := c.ListKeys(a.t.Context(), client.Page{})
		return err == nil
	})
	a.watchBy(c)
	return made.Key
}

func (a *addresses) clientOf(r *role, key string) *client.Client {
	a.t.Helper()
	c, err := client.New(r.said(saidAPI), key, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// isWhole waits until the history has every payment once.
func (a *addresses) isWhole(r *role, key string, paid []string) {
	a.t.Helper()
	c := a.clientOf(r, key)
	r.until("the history is whole", func() bool {
		count, page := 0, client.Page{Limit: 250}
		for {
			list, err := c.ListEvents(a.t.Context(), client.EventFilter{}, page)
			if err != nil {
				return false
			}
			count += len(list.Data)
			if list.NextCursor == nil {
				return count == len(paid)
			}
			page.Cursor = *list.NextCursor
		}
	})
}

// TestAServiceIsBroughtToAnotherPartitionCount repartitions a service with the program itself while
// payments arrive. The service is down for seconds. Every payment must be received once, under one
// id, and the history must be complete.
func TestAServiceIsBroughtToAnotherPartitionCount(t *testing.T) {
	t.Parallel()
	a := newAddresses(t)
	config, secrets := a.configure()
	old := a.serving(config, secrets, "shop.")
	key := a.shopOf(old, config, secrets)
	var moved transfer.Moved
	var present *role
	paid := a.payThrough(func() {
		old.until("payments are received", func() bool { return a.hooks.count() > 2 })
		move := &role{t: t, name: "repartition", args: []string{
			"repartition", "--json", "--config", config, "--secrets-dir", secrets, "--to", "7",
			"--to-prefix", "shop7.", "--scratch", t.TempDir(), "--clickhouse-dsn", a.history,
			"--kafka-user", "lumenhook",
		}}
		move.start()
		move.until("it asks for the service to be stopped",
			func() bool {
				return strings.Contains(move.output.String(),
					"stop every process of the service now")
			})
		old.terminate()
		if err := <-move.exited; err != nil {
			t.Fatalf("repartition ended with %v:\n%s", err, move.output)
		}
		if err := json.Unmarshal([]byte(move.output.String()[strings.Index(move.output.String(), "{"):]),
			&moved); err != nil {
			t.Fatalf("%v:\n%s", err, move.output)
		}
		present = a.serving(config, secrets, "shop7.")
		told := a.hooks.count()
		present.until("payments are received again", func() bool { return a.hooks.count() > told+2 })
	})
	if moved.Before != 4 || moved.Partitions != 7 || moved.Entries == 0 {
		t.Errorf("it says of itself %+v", moved)
	}
	t.Logf("the service stood still for %.1f s", moved.PauseSeconds)
	a.account(present.until, paid)
	if posts := a.hooks.count(); posts != len(paid) {
		t.Errorf("%d posts were made of %d payments", posts, len(paid))
	}
	a.isWhole(present, key, paid)
	present.terminate()
}

// The backup is made while payments arrive, and its cluster is lost some time later. The restored
// cluster must not repeat what was delivered before the backup.
func TestANewClusterIsMadeOfABackup(t *testing.T) {
	t.Parallel()
	a := newAddresses(t)
	config, secrets := a.configure()
	old := a.serving(config, secrets, "shop.")
	key := a.shopOf(old, config, secrets)
	dir := filepath.Join(t.TempDir(), "backup")
	var delivered []string
	paid := a.payThrough(func() {
		old.until("deliveries are known to have arrived", func() bool {
			delivered = a.delivered(old, key)
			return len(delivered) > 2
		})
		a.program("backup", "--config", config, "--secrets-dir", secrets, "--to", dir, "--scratch",
			t.TempDir())
		told := a.hooks.count()
		old.until("payments are received after the backup",
			func() bool { return a.hooks.count() > told+2 })
	})
	old.kill()
	restore := []string{
		"restore", "--config", config, "--secrets-dir", secrets, "--topic-prefix", "new.",
		"--from", dir, "--partitions", "5", "--replication", "1", "--scratch", t.TempDir(),
	}
	newer := &role{
		t:    t,
		name: "restore",
		args: append(slices.Clone(restore), "--clickhouse-dsn", a.history),
	}
	newer.start()
	if err := <-newer.exited; err == nil || !strings.Contains(newer.output.String(),
		"is newer than the copy") {
		t.Fatalf("a history that goes on from behind the backup: %v\n%s", err, newer.output)
	}
	a.forgetHistory()
	a.program(restore...)
	present := a.serving(config, secrets, "new.")
	paid = append(paid, a.payThrough(func() {
		told := a.hooks.count()
		present.until("payments are received again", func() bool { return a.hooks.count() > told+2 })
	})...)
	a.account(present.until, paid) // one id each, even if both clusters reported it
	posts := make(map[string]int)
	for _, w := range a.hooks.posts() {
		posts[w.ID]++
	}
	for _, id := range delivered {
		if posts[id] != 1 {
			t.Errorf("%s was delivered before the backup, and was posted %d times", id, posts[id])
		}
	}
	if _, err := a.clientOf(present, key).ListKeys(t.Context(), client.Page{}); err != nil {
		t.Errorf("the key of before: %v", err)
	}
	present.terminate()
}

func (a *addresses) forgetHistory() {
	a.t.Helper()
	opts, err := driver.ParseDSN(a.history)
	if err != nil {
		a.t.Fatal(err)
	}
	db, err := driver.Open(opts)
	if err != nil {
		a.t.Fatal(err)
	}
	defer db.Close()
	for _, table := range writer.Tables() {
		if err := db.Exec(a.t.Context(), "DROP TABLE "+table); err != nil {
			a.t.Fatal(err)
		}
	}
}

// delivered returns the events that were delivered, or nil if the history is behind.
func (a *addresses) delivered(r *role, key string) (ids []string) {
	a.t.Helper()
	list, err := a.clientOf(r, key).ListEvents(a.t.Context(),
		client.EventFilter{State: "DELIVERED"}, client.Page{Limit: 250})
	if err != nil {
		return nil // the history is behind
	}
	for _, e := range list.Data {
		ids = append(ids, e.ID)
	}
	return ids
}
