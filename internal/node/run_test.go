package node

import (
	"log"
	"log/slog"
	"strings"
	"testing"
)

// Hostile receivers can make net/http write lines to the global log. They must be logged only at
// debug level.
func TestReceiversDoNotFillTheLog(t *testing.T) {
	out, flags := log.Writer(), log.Flags()
	t.Cleanup(func() { log.SetOutput(out); log.SetFlags(flags) })
	for level, told := range map[slog.Level]bool{
		slog.LevelDebug: true, slog.LevelInfo: false, slog.LevelWarn: false,
	} {
		var text strings.Builder
		quietGlobalLog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})))
		log.Printf("Transport: unhandled response frame type %d", 7)
		said, debug := strings.Contains(text.String(), "unhandled"),
			strings.Contains(text.String(), "level=DEBUG")
		if said != told || debug != told {
			t.Errorf("at level %s the log holds %q", level, &text)
		}
	}
}
