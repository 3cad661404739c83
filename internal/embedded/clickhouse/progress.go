package clickhouse

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"
)

const (
	terminalInterval = 200 * time.Millisecond
	plainInterval    = 5 * time.Second // doubles each time, up to
	plainIntervalMax = time.Minute
)

// progress reports how much of a download is on disk. Without a terminal, npm prints nothing, and a
// first start would seem to hang.
type progress struct {
	w        io.Writer
	terminal bool
	label    string
	dir      string
	began    time.Time
	quit     chan struct{}
	done     chan struct{}
}

// showProgress starts reporting the growth of dir. It reports nothing if w is nil.
func showProgress(w io.Writer, label, dir string) *progress {
	p := &progress{
		w:     w,
		label: label,
		dir:   dir,
		began: time.Now(),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	if w == nil {
		close(p.done)
		return p
	}
	if f, ok := w.(*os.File); ok {
		p.terminal = term.IsTerminal(int(f.Fd()))
	}
	go p.run()
	return p
}

func (p *progress) run() {
	defer close(p.done)
	interval := plainInterval
	if p.terminal {
		interval = terminalInterval
	} else {
		fmt.Fprintf(p.w, "%s: downloading, once (about 550 MB on disk)\n", p.label)
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
			p.line("downloading")
			if !p.terminal {
				interval = min(2*interval, plainIntervalMax)
				ticker.Reset(interval)
			}
		}
	}
}

// line prints a line. On a terminal, it overwrites the previous one.
func (p *progress) line(state string) {
	begin, end := "", "\n"
	if p.terminal {
		begin, end = "\r\x1b[K", ""
	}
	fmt.Fprintf(p.w, "%s%s: %s, %d MB on disk, %.0f s%s", begin, p.label, state,
		dirSizeBytes(p.dir)/1e6, time.Since(p.began).Seconds(), end)
}

func (p *progress) stop(err error) {
	close(p.quit)
	<-p.done
	if p.w == nil {
		return
	}
	state := "downloaded"
	if err != nil {
		state = "download failed"
	}
	p.line(state)
	if p.terminal {
		fmt.Fprintln(p.w)
	}
}

// dirSizeBytes returns the size of a folder that is being written. It ignores files that disappear
// in the meantime.
func dirSizeBytes(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
