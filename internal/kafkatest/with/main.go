// Command with starts a cluster of three brokers, runs a command whose test binaries share the
// cluster, and stops the cluster. Without a command, it installs Kafka for tests into the user's
// cache folder if necessary, and verifies every file.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
)

const brokers = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		os.Exit(exit.ExitCode()) // the command has printed its error
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 {
		dir, err := kafkatest.Install(ctx)
		if err == nil {
			fmt.Println("Kafka is in", dir)
		}
		return err
	}
	dir, err := os.MkdirTemp("", "lumenhook-kafka-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	cluster, err := kafkatest.Start(ctx,
		kafkatest.Config{Dir: filepath.Join(dir, "cluster"), Brokers: brokers})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	fmt.Printf("started %d brokers in %.1fs\n", brokers, time.Since(began).Seconds())
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { _ = cluster.Serve(l) }() // until the listener is closed
	defer l.Close()
	// #nosec G204 G702 -- the caller chooses the command
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), kafkatest.SocketVariable+"="+socket)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
