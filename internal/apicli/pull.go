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
	// maxLineBytes is far above what a line has.
	maxLineBytes = 64 << 20
)

// PulledLine is an event of an endpoint as a line of JSON, with what it takes to check its
// signature.
type PulledLine struct {
	Sequence   int64  `json:"sequence"` // the first member, by which lines are known
	EndpointID string `json:"endpointId"`
	ID         string `json:"id"`
	Timestamp  string `json:"timestamp"`
	Signature  string `json:"signature"`
	Body       string `json:"body"`
}

// lineHead is how each line begins.
const lineHead = `{"sequence":`

// Puller reads the events of an endpoint.
type Puller struct {
	Client     *client.Client
	EndpointID string
	After      int64 // the number before the first
	Follow     bool  // waits for more, and outlasts a service that is away
	Out        io.Writer
	Tell       io.Writer // what else there is to say
}

// Run writes the events, until there are no more, or, if it follows, until ctx ends.
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

// TellMissing reports events that never arrive to the user of a command.
func TellMissing(to io.Writer) func(client.Numbers) {
	return func(m client.Numbers) {
		_, _ = fmt.Fprintf(to, "the events %d to %d are no longer kept, and never come\n", m.From, m.To)
	}
}

// answersAgain is said of a service that was away.
const answersAgain = "the service answers again"

// TellBack reports to the user of a command that the service answers again.
func TellBack(to io.Writer) func(int64) {
	return func(after int64) {
		_, _ = fmt.Fprintf(to, "%s; continuing from %d\n", answersAgain, after)
	}
}

// noFlags are those of a fault that no flag is to blame for.
var noFlags = pflag.NewFlagSet("", pflag.ContinueOnError)

// TellAway reports to the user of a command that the service does not answer.
func TellAway(to io.Writer) func(error, int64) {
	return func(err error, after int64) {
		_, _ = fmt.Fprintf(to, "%s\ncontinuing from %d once the service answers\n",
			cli.Explain(err, noFlags), after)
	}
}

// write writes an event with one call, so that a reader gets whole lines.
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

// PullFile is a file of lines to which a puller appends. It remembers how far the puller is: in
// it each event stands once, whenever the puller is killed.
type PullFile struct {
	*os.File
	// After is the number of the last event in it; 0: it is empty.
	After int64
}

// OpenPullFile opens or creates the file of an endpoint's events, for one puller at a time. A
// last line that a killed puller left unfinished is removed.
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

// resume seeks to where the next line belongs.
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
			return fmt.Errorf("it has events of %s: name a file of its own for %s", l.EndpointID,
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

var errNotPulled = errors.New("its last line is not from `lumenhook events pull`: " +
	"name another file")

// lastLine returns the last whole line of a file, and what follows it.
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
