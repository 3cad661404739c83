// Command recording follows the README's first webhook in a shell, on a service that it starts, and
// draws the terminal's contents as an animated SVG:
//
//	make recording
//
// It hides how a block of the README is typed line by line, how the end of a command's output is
// detected, and how a terminal is drawn. Ids, times and addresses are those of the session.
//
// File map: main.go is the session, draw.go is the picture.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// sessionMax limits a session, including the start of the service.
const sessionMax = 2 * time.Minute

func main() {
	program := flag.String("program", "bin/lumenhook", "the program")
	page := flag.String("page", "README.md", "the page to follow")
	out := flag.String("out", "docs/recording/first-webhook.svg", "where the picture goes")
	root := flag.String("root", "../..", "the repository, from which the others are named")
	flag.Parse()
	err := os.Chdir(*root)
	if err == nil {
		err = record(*program, *page, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func record(program, page, out string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sessionMax)
	defer cancel()
	read, err := pages.Read(".", page)
	if err != nil {
		return err
	}
	blocks := blocksOf(read)
	if len(blocks) < 4 {
		return fmt.Errorf("%s has %d blocks of a first webhook, and 4 are followed", page, len(blocks))
	}
	home, err := os.MkdirTemp("", "recording")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	if program, err = filepath.Abs(program); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o700); err != nil {
		return err
	}
	if err := os.Symlink(program, filepath.Join(home, "bin", "lumenhook")); err != nil {
		return err
	}
	stop, err := startService(ctx, home)
	if err != nil {
		return err
	}
	shown, err := follow(ctx, home, blocks[:4])
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return os.WriteFile(out, []byte(draw(shown)), 0o600)
}

func blocksOf(page pages.Page) (blocks []string) {
	for _, b := range page.Blocks {
		if b.Section == "A first webhook in five minutes" && b.Language == "sh" {
			blocks = append(blocks, b.Code)
		}
	}
	return blocks
}

// startService starts the service and waits until it is ready. It runs until stop is called.
func startService(ctx context.Context, home string) (stop func() error, err error) {
	args := []string{"run", "--log-format", "text", "--no-demo"}
	parts := []string{"api", "kafka", "stellar", "metrics", "clickhouse-native", "clickhouse-http"}
	for _, part := range parts {
		args = append(args, "--"+part+"-listen", "127.0.0.1:0")
	}
	program := filepath.Join(home, "bin", "lumenhook")
	c := exec.CommandContext(ctx, program, args...) // #nosec G204 -- the program that is recorded
	c.Dir, c.Stderr = home, os.Stderr
	said, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		return errors.Join(c.Process.Signal(syscall.SIGINT), c.Wait())
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.HasSuffix(lines.Text(), "  ready") {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return stop, nil
		}
	}
	return nil, errors.Join(errors.New("the service did not become ready"), stop())
}

type line struct {
	text  string
	typed bool
}

// awaited lists the output to wait for before the next block is typed, as a user would. An empty
// text waits for nothing.
var awaited = []string{"listening at", "status code", ": payment.received, ", ""}

// follow types the blocks line by line, and returns the terminal's contents.
func follow(ctx context.Context, home string, blocks []string) ([]line, error) {
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-s")
	c.Dir, c.WaitDelay = home, time.Second
	input, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		return nil, err
	}
	t := &terminal{input: input, output: bufio.NewScanner(output)}
	for i, block := range blocks {
		if err := t.block(block, awaited[i], i == len(blocks)-1); err != nil {
			return t.shown, errors.Join(err, input.Close(), c.Wait())
		}
	}
	return t.shown, errors.Join(input.Close(), c.Wait())
}

type terminal struct {
	input  io.Writer
	output *bufio.Scanner
	shown  []line
}

// over is a mark that the shell prints after the output of each typed line.
const over = "---over---"

func (t *terminal) block(text, shows string, history bool) error {
	if history { // wait until the history has the event, as a user who takes a moment would
		text = "until lumenhook events list --watch $WATCH --state DELIVERED --field data.0.id " +
			">/dev/null 2>&1; do sleep 0.2; done\n" + text
	}
	for i, typed := range strings.Split(strings.TrimSpace(text), "\n") {
		if typed == "" {
			continue
		}
		if !history || i > 0 {
			t.shown = append(t.shown, line{typed, true})
		}
		if _, err := fmt.Fprintf(t.input, "%s\necho %s\n", typed, over); err != nil {
			return err
		}
		if err := t.until(over); err != nil {
			return err
		}
	}
	return t.until(shows)
}

// until reads output up to a line that contains text. Earlier output counts as well.
func (t *terminal) until(text string) error {
	for _, l := range t.shown {
		if text != over && !l.typed && strings.Contains(l.text, text) || text == "" {
			return nil
		}
	}
	for t.output.Scan() {
		got := t.output.Text()
		if got != over {
			t.shown = append(t.shown, line{got, false})
		}
		if strings.Contains(got, text) {
			return nil
		}
	}
	return fmt.Errorf("the shell ended before it showed %q: %s", text, t.shown[len(t.shown)-1].text)
}
