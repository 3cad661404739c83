package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

const exampleWidth = 100

func TestEveryCommandHasExamples(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if c.Example == "" {
			t.Errorf("%s has no example: give it an Example, of which each is a line with a # that says "+
				"what for, and a command line below it, both after two spaces (cmd/lumenhook/examples.go)",
				c.CommandPath())
		}
		for _, example := range examplesIn(c) {
			if err := checkExample(c, example); err != nil {
				t.Errorf("%s: %v, in its example\n%s", c.CommandPath(), err, example)
			}
		}
	}
	check(newRoot())
}

func examplesIn(c *cobra.Command) (examples []string) {
	for example := range strings.SplitSeq(c.Example, "\n\n") {
		if example = strings.TrimPrefix(strings.ReplaceAll(example, "\n  ", "\n"), "  "); example != "" {
			examples = append(examples, example)
		}
	}
	return examples
}

func checkExample(c *cobra.Command, example string) error {
	for line := range strings.Lines(example) {
		if n := len([]rune(strings.TrimSpace(line))); n > exampleWidth-2 {
			return fmt.Errorf("a line has %d characters, and a help %d: break it with a \\", n, exampleWidth)
		}
	}
	purpose, commands, _ := strings.Cut(example, "\n")
	switch {
	case !strings.HasPrefix(purpose, "# ") || strings.Contains(commands, "#"):
		return errors.New("it must begin with one line \"# what for\"")
	case !strings.Contains(commands, c.CommandPath()):
		return fmt.Errorf("no line calls %s", c.CommandPath())
	}
	return nil
}

// TestEveryExampleDoesWhatItShows runs every example of every help text as written, in a shell,
// with a real service. Placeholders for the reader's own values (ep_…, kafka-1:9092,
// https://rpc.example) are replaced first. theExamplesStory gives the order and every other
// difference.
func TestEveryExampleDoesWhatItShows(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, sc := range theExamplesStory() {
		s.play(sc)
	}
	for _, name := range slices.Sorted(maps.Keys(s.left)) {
		for _, example := range s.left[name] {
			t.Errorf("%s: no scene is of this example:\n%s", name, example)
		}
	}
	s.curtain()
}

// scene says how to run the examples of a command. By default, they run unchanged to their end,
// with status 0. Each field is an exception, with its reason in a comment.
type scene struct {
	command string
	only    string // run only the examples with this text; "": all that are left
	code    int    // exit status

	// An example that does not end on its own is interrupted once it has shown ready, and must exit
	// with code. If it stays, it is interrupted at the end of the story.
	ready string
	stays bool

	// env is the reader's environment or configuration. Placeholders in it are replaced.
	env []string
	// stands maps texts of the example to their replacements on this stage.
	stands map[string]string
	// before prepares files, and after waits for effects that come later.
	before, after func(*stage)
}

// stage is where the story takes place: a folder with everything that a reader has.
type stage struct {
	*testService
	home  string
	left  map[string][]string // examples that have not run yet, by command
	names map[string]string   // current values of the placeholders
	stay  []*performance
}

func newStage(t *testing.T) *stage {
	testkit.Long(t)
	home := t.TempDir()
	installProgram(t, filepath.Join(home, "bin"))
	s := &stage{
		home: home,
		left: make(map[string][]string),
		testService: &testService{
			t:      t,
			dir:    filepath.Join(home, ".lumenhook"),
			output: &testkit.Buffer{},
		},
	}
	leaves := make(map[string]*cobra.Command)
	collect(newRoot(), leaves)
	for name, c := range leaves {
		s.left[name] = examplesIn(c)
	}
	s.furnish(t)
	return s
}

// play runs the examples of a scene in order. A scene without a command runs those of all commands
// that have no scene.
func (s *stage) play(sc scene) {
	s.t.Helper()
	if sc.command == "" {
		for _, name := range slices.Sorted(maps.Keys(s.left)) {
			if !hasScene(name) {
				s.play(scene{command: name})
			}
		}
		return
	}
	if sc.before != nil {
		sc.before(s)
	}
	examples := s.take(sc)
	if len(examples) == 0 {
		s.t.Errorf("the story has a scene of %s, and no example is left that has %q", sc.command, sc.only)
	}
	for _, example := range examples {
		s.perform(sc, example)
	}
	if sc.after != nil {
		sc.after(s)
	}
}

func hasScene(command string) bool {
	return slices.ContainsFunc(theExamplesStory(),
		func(sc scene) bool { return sc.command == command })
}

func (s *stage) take(sc scene) (taken []string) {
	var left []string
	for _, example := range s.left[sc.command] {
		if strings.Contains(example, sc.only) {
			taken = append(taken, example)
		} else {
			left = append(left, example)
		}
	}
	if s.left[sc.command] = left; len(left) == 0 {
		delete(s.left, sc.command)
	}
	return taken
}

type performance struct {
	sc      scene
	script  string
	cmd     *exec.Cmd
	output  *testkit.Buffer
	exited  chan struct{} // closed when it has exited
	stopped context.CancelFunc
}

func (s *stage) perform(sc scene, example string) {
	s.t.Helper()
	p := s.begin(sc, s.set(sc, example))
	switch {
	case sc.ready == "":
		<-p.exited
	case !p.shows(sc.ready):
		s.t.Fatalf("it ended, or took a minute, before it showed %q:\n%s\n%s", sc.ready, p.script,
			p.output)
	case sc.stays:
		s.stay = append(s.stay, p)
		return
	default:
		p.interrupt()
	}
	s.ended(p)
}

func (s *stage) ended(p *performance) {
	s.t.Helper()
	if code := p.cmd.ProcessState.ExitCode(); code != p.sc.code {
		s.t.Fatalf("an example of %s ended with %d, and should with %d. If that is right, or it goes on by "+
			"itself, or needs something first, give it a scene in theExamplesStory:\n%s\n%s", p.sc.command,
			code, p.sc.code, p.script, p.output)
	}
	s.learn(p.output.String())
}

// curtain interrupts the examples that stayed, the last one first.
func (s *stage) curtain() {
	s.t.Helper()
	for _, p := range slices.Backward(s.stay) {
		p.interrupt()
		s.ended(p)
	}
}

func (s *stage) set(sc scene, example string) string {
	s.t.Helper()
	script := s.replaced(sc, example)
	_, commands, _ := strings.Cut(script, "\n")
	if strings.Contains(commands, "…") {
		s.t.Fatalf("%s: what stands for … in this example? The stage knows %q:\n%s", sc.command,
			slices.Sorted(maps.Keys(s.names)), script)
	}
	return script
}

func (s *stage) replaced(sc scene, text string) string {
	var pairs []string
	for _, names := range []map[string]string{sc.stands, s.names} {
		for _, name := range slices.SortedFunc(maps.Keys(names), longestFirst) {
			pairs = append(pairs, name, names[name])
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// longestFirst orders names so that USDC:G… is found before G….
func longestFirst(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }

func (s *stage) begin(sc scene, script string) *performance {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 90*time.Second)
	if sc.stays {
		ctx, cancel = context.WithCancel(s.t.Context())
	}
	p := &performance{
		sc:      sc,
		script:  script,
		cmd:     exec.CommandContext(ctx, "bash", "-eu", "-c", script),
		output:  &testkit.Buffer{},
		exited:  make(chan struct{}),
		stopped: cancel,
	}
	p.cmd.Dir, p.cmd.WaitDelay = s.home, 10*time.Second
	p.cmd.Env = append(os.Environ(), "PATH="+filepath.Join(s.home, "bin")+":"+os.Getenv("PATH"))
	for _, variable := range sc.env {
		p.cmd.Env = append(p.cmd.Env, s.replaced(sc, variable))
	}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the result is in ProcessState
	}()
	s.t.Cleanup(func() { // background processes must not outlive the test
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		cancel()
		<-p.exited
	})
	return p
}

func (p *performance) shows(text string) bool {
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.output.String(), text) {
		select {
		case <-p.exited:
			return strings.Contains(p.output.String(), text)
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
	return true
}

// interrupt sends SIGINT to the whole process group, as Ctrl-C on a terminal does.
func (p *performance) interrupt() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
	<-p.exited
}

func (s *stage) write(name string, text []byte) {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) read(name string) []byte {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.home, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}
