package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestATerminalThatStandsStillHoldsNothingBack(t *testing.T) {
	const lines = 2 * terminalLines
	reader, writer := io.Pipe() // takes nothing until it is read
	shown := newTerminal(writer)
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
	if _, err := fmt.Sscanf(got[len(got)-1], "… %d lines were left out", &leftOut); err != nil || leftOut+len(got)-1 != lines {
		t.Errorf("%d lines were shown of %d, the last of them %q", len(got), lines, got[len(got)-1])
	}
	if got[0] != "line 0" || got[terminalLines-1] != fmt.Sprintf("line %d", terminalLines-1) {
		t.Errorf("lines are not in order: %q … %q", got[0], got[terminalLines-1])
	}
}
