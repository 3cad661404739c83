// Command with starts a cluster of three brokers, runs the command that it is
// given, whose test binaries share the cluster, and ends both. Without a command it installs
// the Kafka that tests run into the user's cache folder, unless it is there, and checks every
// file of it.
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
		os.Exit(exit.ExitCode()) // it has said why
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
	fmt.Printf("%d brokers were started in %.1fs\n", brokers, time.Since(began).Seconds())
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
