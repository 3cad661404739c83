package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const hostileText = "x\u009b2J\x1b[2J\u202egpj\u2066\u200b\u2028\U000e0041\ré"

// Text from strangers must be escaped in columns, in other lines of the output, in errors and in
// notes. JSON must keep its value, and a field that isn't printed to a terminal must be exact.
func TestACommandGivesATerminalNoCommands(t *testing.T) {
	run := func(args ...string) (stdout, stderr string) {
		var out, notes bytes.Buffer
		var output Output
		root := &cobra.Command{Use: "program"}
		show := &cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = io.WriteString(cmd.ErrOrStderr(), "note: "+hostileText+"\n")
			err := output.Print(cmd.OutOrStdout(), map[string]string{"label": hostileText},
				func(w io.Writer) {
					Row(w, "label", hostileText)
					_, _ = io.WriteString(w, "raw "+hostileText+"\n")
				})
			return errors.Join(err, errors.New("refused: "+hostileText))
		}}
		output.Register(show.Flags())
		root.AddCommand(show)
		root.SetOut(&out)
		root.SetErr(&notes)
		Execute(t.Context(), Line{Root: root, Args: append([]string{"show"}, args...), Stderr: &notes})
		return out.String(), notes.String()
	}
	clean := func(what, text string) {
		if i := strings.IndexAny(text, "\u009b\x1b\u202e\u2066\u200b\u2028\U000e0041\r"); i >= 0 {
			t.Errorf("%s has %q", what, text[i:])
		}
		if !strings.Contains(text, `\u202egpj`) || !strings.Contains(text, "é") {
			t.Errorf("%s is %q", what, text)
		}
	}
	out, notes := run()
	clean("the output", out)
	clean("the notes and the error", notes)
	if strings.Count(notes, `\u202egpj`) != 2 || strings.Count(out, `\u202egpj`) != 2 {
		t.Errorf("%q\n%q", out, notes)
	}
	out, _ = run("--json")
	var answer map[string]string
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer["label"] != hostileText {
		t.Errorf("%q: %v", out, err)
	}
	clean("the JSON", out)
	if out, _ = run("--field", "label"); out != hostileText+"\n" {
		t.Errorf("a field for a program is %q", out)
	}
}

// A writer may get the bytes of a character in several writes.
func TestACharacterInTwoWritesIsOne(t *testing.T) {
	const text = "東京 \u009b \u202e 🙂 \U000e0041 é\n"
	var whole bytes.Buffer
	if _, err := io.WriteString(Plain(&whole), text); err != nil {
		t.Fatal(err)
	}
	for size := 1; size < 5; size++ {
		var parts bytes.Buffer
		w := Plain(&parts)
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		if parts.String() != whole.String() || !strings.Contains(whole.String(), `🙂 \udb40\udc41`) {
			t.Errorf("in parts of %d: %q, not %q", size, &parts, &whole)
		}
	}
}

// A terminal must not get exact output, even if the program implements the terminal itself.
func TestATerminalGetsNothingExact(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Exact(Plain(file)) != io.Writer(file) || Exact(file) != io.Writer(file) {
		t.Error("a file does not get exact output")
	}
	if screen := Plain(newScreen()); Exact(screen) != screen || !IsTerminal(screen) {
		t.Error("a terminal gets exact output")
	}
}

func newScreen() *term.Terminal { return term.NewTerminal(struct{ io.ReadWriter }{}, "> ") }
