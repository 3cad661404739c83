package standalone

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestATerminalThatStandsStillHoldsNothingBack(t *testing.T) {
	const lines = 2 * queueLines
	reader, writer := io.Pipe() // blocks until it is read
	shown := newLineQueue(writer)
	for n := range lines {
		fmt.Fprintf(shown, "line %d\n", n)
	}
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(reader)
		if err != nil {
			t.Error(err)
		}
		read <- string(all)
	}()
	shown.Close()
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(<-read), "\n")
	var leftOut int
	last := got[len(got)-1]
	_, err := fmt.Sscanf(last, "… %d lines were left out", &leftOut)
	if err != nil || leftOut+len(got)-1 != lines {
		t.Errorf("%d lines were shown of %d, the last of them %q", len(got), lines, last)
	}
	if got[0] != "line 0" || got[queueLines-1] != fmt.Sprintf("line %d", queueLines-1) {
		t.Errorf("lines are not in order: %q … %q", got[0], got[queueLines-1])
	}
}
