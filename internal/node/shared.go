package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/directory"
)

type directoryPart struct {
	part
	*directory.Directory
}

func (p *directoryPart) Name() string { return "directory" }

func (p *directoryPart) Start(ctx context.Context) (err error) {
	cfg := p.node.cfg
	p.Directory, err = directory.Open(ctx, directory.Config{
		Cluster:      p.clusterOf("directory"),
		Dir:          filepath.Join(cfg.StateDir, "directory"),
		OnUnreadable: cfg.Metrics.deadLetterOf(readerDirectory),
		Now:          cfg.Now,
		Logger:       cfg.Logger,
	})
	if err != nil {
		return err
	}
	p.OnStop(func() {
		if err := p.Close(); err != nil {
			cfg.Logger.Warn("closing the directory", "error", err)
		}
	})
	p.Go("directory", p.fill)
	return nil
}

// fill ends the process if the topics were replaced. The process must then read them from the
// beginning into an empty store before it uses their data.
func (p *directoryPart) fill(ctx context.Context) error {
	err := p.Run(ctx)
	if errors.Is(err, directory.ErrRebuild) {
		p.node.stack.Failed(fmt.Errorf("directory: %w", err))
	}
	return err
}

func (p *directoryPart) Ready(context.Context) error { return p.Fresh() }

type commandsPart struct {
	part
	*commands.Client
}

func (p *commandsPart) Name() string { return "commands" }

func (p *commandsPart) Start(ctx context.Context) (err error) {
	cfg := p.node.cfg
	p.Client, err = commands.Open(ctx, commands.Config{
		Cluster: p.clusterOf("commands"),
		Wait:    maxTestWait,
		Logger:  cfg.Logger,
	})
	if err != nil {
		return err
	}
	p.OnStop(func() { p.Close() })
	p.Go("commands", p.Run)
	return nil
}

// receiversPart is the guarded client for receivers. The engine posts through it, and the API
// checks URLs by its rules.
type receiversPart struct {
	part
	client *egress.Client
}

func (p *receiversPart) Name() string { return "egress" }

func (p *receiversPart) Start(context.Context) (err error) {
	if p.client, err = egress.New(p.node.cfg.Egress); err != nil {
		return err
	}
	p.OnStop(p.client.Close)
	return nil
}

const openAccountMax = 30 * time.Second

// KeyOwner is a key and its account.
type KeyOwner struct {
	AccountID string // empty: no account has the key
	Key       domain.Key
}

// KeyByHash finds an API key by its domain.APIKeyHash, and reports whether the account exists.
func (n *Node) KeyByHash(
	ctx context.Context, hash []byte, accountID string,
) (o KeyOwner, exists bool, err error) {
	if err := n.stack.Start(ctx, n.directory); err != nil {
		return o, false, err
	}
	// A directory that is still being filled may lack the key.
	if err := n.directory.ConfirmKeys(ctx); err != nil {
		return o, false, err
	}
	if _, exists, err = n.directory.Account(accountID); err != nil {
		return o, false, err
	}
	o.Key, o.AccountID, _, err = n.directory.KeyByHash(hash)
	return o, exists, err
}

// ChangeAccount submits a command on an account and waits until the change is readable. Repeating
// the same command changes nothing.
func (n *Node) ChangeAccount(ctx context.Context, c domain.Command) error {
	if err := n.stack.Start(ctx, n.directory, n.commands); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openAccountMax)
	defer cancel()
	for {
		result, err := n.commands.Submit(ctx, c)
		refused := result.Answer.Rejection
		switch {
		case err == nil && refused != nil && refused.Code != domain.CodeAlreadyExists:
			return fmt.Errorf("changing the account: %s", refused.Detail)
		case err == nil:
			var version uint64 = 1
			if result.Answer.Account != nil {
				version = result.Answer.Account.Version
			}
			return n.directory.AwaitAccount(ctx, c.AccountID, version)
		case errors.Is(err, commands.ErrClosed), ctx.Err() != nil:
			return fmt.Errorf("changing the account: %w", err)
		}
	}
}
