package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestATerminalThatStandsStillHoldsNothingBack(t *testing.T) {
	const lines = 2 * queueLines
	reader, writer := io.Pipe() // blocks until it is read
	shown := newLineQueue(writer, tellLeftOut)
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

// Every line of a JSON log must be JSON, because its reader parses each line.
func TestAJSONLogThatStandsStillStaysJSON(t *testing.T) {
	const lines = 2 * queueLines
	reader, writer := io.Pipe() // blocks until it is read
	shown := newLineQueue(writer, logLeftOut)
	log := slog.New(slog.NewJSONHandler(shown, nil))
	for n := range lines {
		log.Info("a line", "number", n)
	}
	total := make(chan int)
	go func() {
		counted := 0
		for read := json.NewDecoder(reader); ; counted++ {
			var line struct{ Lines int }
			if err := read.Decode(&line); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				break
			}
			if line.Lines > 0 {
				counted += line.Lines - 1
			}
		}
		_, _ = io.Copy(io.Discard, reader)
		total <- counted
	}()
	shown.Close()
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-total; got != lines {
		t.Errorf("%d lines were written or counted, of %d", got, lines)
	}
}
