package apicli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const (
	pullPage = 250
	// maxLineBytes is far larger than any line.
	maxLineBytes = 64 << 20
)

// PulledLine is an event as a line of JSON. It contains everything needed to check the signature.
type PulledLine struct {
	Sequence   int64  `json:"sequence"` // must be first: lines are recognized by it
	EndpointID string `json:"endpointId"`
	ID         string `json:"id"`
	Timestamp  string `json:"timestamp"`
	Signature  string `json:"signature"`
	Body       string `json:"body"`
}

// lineHead is the start of each line.
const lineHead = `{"sequence":`

// Puller reads an endpoint's events.
type Puller struct {
	Client     *client.Client
	EndpointID string
	After      int64 // the number before the first event
	Follow     bool  // wait for more events, and survive outages of the service
	Out        io.Writer
	Tell       io.Writer // for notices
}

// Run writes the events. It returns after the last one or, if Follow is set, when ctx is done.
func (p *Puller) Run(ctx context.Context) error {
	l := client.Listener{
		Client:     p.Client,
		EndpointID: p.EndpointID,
		From:       client.Pull{After: p.After, Limit: pullPage},
		Once:       !p.Follow,
		Handle:     func(_ context.Context, e client.PulledEvent) error { return p.write(e) },
		Missing:    TellMissing(p.Tell),
		Away:       TellAway(p.Tell),
		Back:       TellBack(p.Tell),
	}
	return l.Run(ctx)
}

// TellMissing returns a function that reports events that are no longer stored.
func TellMissing(to io.Writer) func(client.Numbers) {
	return func(m client.Numbers) {
		_, _ = fmt.Fprintf(to, "events %d to %d are no longer stored and won't arrive\n", m.From, m.To)
	}
}

const answersAgain = "the service answers again"

// TellBack returns a function that reports that the service responds again.
func TellBack(to io.Writer) func(int64) {
	return func(after int64) {
		_, _ = fmt.Fprintf(to, "%s; continuing from %d\n", answersAgain, after)
	}
}

// noFlags is for errors that no flag can have caused.
var noFlags = pflag.NewFlagSet("", pflag.ContinueOnError)

// TellAway returns a function that reports that the service does not respond.
func TellAway(to io.Writer) func(error, int64) {
	return func(err error, after int64) {
		_, _ = fmt.Fprintf(to, "%s\ncontinuing from %d once the service answers\n",
			cli.Explain(err, noFlags), after)
	}
}

// write writes an event in a single call, so that readers see complete lines.
func (p *Puller) write(e client.PulledEvent) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(PulledLine{
		Sequence:   e.Sequence,
		EndpointID: p.EndpointID,
		ID:         e.Headers.ID,
		Timestamp:  e.Headers.Timestamp,
		Signature:  e.Headers.Signature,
		Body:       e.Body,
	})
	if err != nil {
		return err
	}
	_, err = p.Out.Write(line.Bytes())
	return err
}

// PullFile is a file to which a Puller appends lines. It records the Puller's position. Even if a
// Puller is killed, the file still contains each event exactly once.
type PullFile struct {
	*os.File
	// After is the number of the last event in the file, or 0 if the file is empty.
	After int64
}

// OpenPullFile opens or creates the file for an endpoint's events and locks it. It removes an
// incomplete last line, which a killed Puller leaves.
func OpenPullFile(path, endpointID string) (*PullFile, error) {
	f, err := subprocess.TryLock(path)
	switch {
	case errors.Is(err, subprocess.ErrLocked):
		return nil, fmt.Errorf("another puller is writing to %s: name another file", path)
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	p := &PullFile{File: f}
	if err := p.resume(endpointID); err != nil {
		return nil, errors.Join(fmt.Errorf("continuing %s: %w", path, err), p.Close())
	}
	return p, nil
}

func (p *PullFile) resume(endpointID string) error {
	size, err := p.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last, torn, err := lastLine(p, size)
	if err != nil {
		return err
	}
	if n := min(len(torn), len(lineHead)); string(torn[:n]) != lineHead[:n] {
		return errNotPulled
	}
	if len(last) > 0 {
		var l PulledLine
		if err := json.Unmarshal(last, &l); err != nil || l.Sequence < 1 {
			return errNotPulled
		}
		if l.EndpointID != endpointID {
			return fmt.Errorf("it contains events of %s; use another file for %s", l.EndpointID,
				endpointID)
		}
		p.After = l.Sequence
	}
	whole := size - int64(len(torn))
	if err := p.Truncate(whole); err != nil {
		return err
	}
	_, err = p.Seek(whole, io.SeekStart)
	return err
}

var errNotPulled = errors.New("its last line is not from `lumenhook events pull`; " +
	"name another file")

// lastLine returns the last complete line of a file and the incomplete line after it.
func lastLine(f io.ReaderAt, size int64) (last, torn []byte, err error) {
	for window := int64(64 << 10); ; window *= 2 {
		from := max(0, size-window)
		tail := make([]byte, size-from)
		if _, err := f.ReadAt(tail, from); err != nil {
			return nil, nil, err
		}
		end := bytes.LastIndexByte(tail, '\n')
		begin := bytes.LastIndexByte(tail[:max(0, end)], '\n')
		switch {
		case end >= 0 && (begin >= 0 || from == 0):
			return tail[begin+1 : end], tail[end+1:], nil
		case from == 0:
			return nil, tail, nil
		case window > maxLineBytes:
			return nil, nil, errNotPulled
		}
	}
}
