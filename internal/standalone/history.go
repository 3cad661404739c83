package standalone

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// Why there is no history, for clients that ask for it. `lumenhook health` shows operators the
// cause.
const (
	historyFetched = "the ClickHouse engine that keeps it is still being fetched through npm, " +
		"and what happens meanwhile will be in it"
	historyAbsent = "the ClickHouse engine that keeps it cannot be fetched: on the server, run " +
		"`lumenhook health` to see why, and `lumenhook install-clickhouse --from FILE` to install it"
	historyFailed = "ClickHouse could not be started, which is tried again: on the server, " +
		"`lumenhook health` shows why"
)

// Waits between attempts to fetch and to start the ClickHouse engine.
const (
	fetchWaitMin = 10 * time.Second
	fetchWaitMax = 10 * time.Minute
)

// startHistory starts ClickHouse and the projector. Without ClickHouse the service still runs, says
// once what is missing, and starts the history once the engine has been fetched and works.
func (v *service) startHistory(ctx context.Context) error {
	err := v.tryHistory(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, clickhouse.ErrNotInstalled) {
		v.lacksHistory(historyFetched, fmt.Errorf("%w, and is being fetched through npm", err))
		v.out.Say("the history comes later: its ClickHouse engine is fetched through npm, " +
			"once (180 MB); until then GET /v1/events answers 503")
		v.Go("history", v.historyLater)
		return nil
	}
	var taken *clickhouse.PortTakenError
	switch {
	case errors.As(err, &taken) && taken.Setting == "HTTPAddr":
		return fmt.Errorf("--clickhouse-http-listen: %w", err)
	case errors.As(err, &taken):
		return fmt.Errorf("--clickhouse-native-listen: %w", err)
	case errors.Is(err, clickhouse.ErrDataDirInUse):
		return err
	}
	v.lacksHistory(historyFailed, err)
	v.out.Say("no history yet (GET /v1/events answers 503), and it is tried again: %v", err)
	v.Go("history", v.historyLater)
	return nil
}

// lacksHistory stores why there is no history: for clients, and for operators' commands.
func (v *service) lacksHistory(why string, cause error) {
	v.node.History().Lacks(why, cause)
	v.mu.Lock()
	v.file.NoHistory = cause.Error()
	v.mu.Unlock()
	v.updateRunFile()
}

func (v *service) updateRunFile() {
	if err := v.republish(); err != nil {
		v.Logger.Error("run.json could not be written", "error", err)
	}
}

func (v *service) tryHistory(ctx context.Context) error {
	if v.flags.node.ClickHouse.Address == "" {
		e, err := v.startClickHouse(ctx)
		if err != nil {
			return err
		}
		v.node.UseOwnHistory(e.DSN())
		v.mu.Lock()
		v.file.NoHistory = ""
		v.file.ClickHouse = &runfile.ClickHouse{
			Native:   e.NativeAddr(),
			HTTP:     e.HTTPURL(),
			Database: e.Database(),
			Login:    v.logins.ClickHouse,
			Reader:   v.logins.Reader,
		}
		v.mu.Unlock()
	}
	return v.node.Start(ctx, node.RoleProjector)
}

// historyLater fetches the ClickHouse engine and starts the history, however long that takes.
func (v *service) historyLater(ctx context.Context) error {
	why := historyAbsent
	policy := retry.Policy{
		First: fetchWaitMin,
		Last:  fetchWaitMax,
		OnFailure: func(f retry.Failure) {
			if f.New {
				v.out.Say("no history yet, and it is tried again: %v", f.Err)
				v.lacksHistory(why, f.Err)
			}
		},
	}
	err := retry.Do(ctx, policy, func() error {
		_, err := clickhouse.Ensure(ctx, clickhouse.Options{Progress: v.terminal, Logger: v.Logger})
		if err != nil {
			return err
		}
		why = historyFailed
		return v.tryHistory(ctx)
	})
	if err != nil {
		return err
	}
	v.out.Say("the history is ready, and catches up")
	v.sayClickHouse()
	v.updateRunFile()
	<-ctx.Done()
	return ctx.Err()
}

func (v *service) sayClickHouse() {
	v.mu.Lock()
	at := v.file.ClickHouse
	v.mu.Unlock()
	if at != nil {
		v.out.Say("  ClickHouse %s   %s", at.Native, at.HTTP)
	}
}

// publish writes run.json.
func (v *service) publish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.published = true
	return v.dir.Publish(v.file)
}

// republish rewrites run.json if it was published.
func (v *service) republish() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.published {
		return nil
	}
	if now, err := runfile.Read(v.dir.Path()); err == nil { // `keys roll` writes it too
		v.file.APIKey, v.file.APIKeyID = now.APIKey, now.APIKeyID
	}
	return v.dir.Publish(v.file)
}

func (v *service) unpublish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.published = false
	_ = v.dir.Unpublish() // the next start removes it too
}
