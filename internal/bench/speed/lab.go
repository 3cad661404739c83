package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

const (
	startMax = time.Minute
	loadMax  = 30 * time.Minute
)

// child is a process of the benchmark's own.
type child = measuring.Process[event]

// lab is a receiver, and what is measured with it.
type lab struct {
	opt      options
	dir      string
	roots    string // the file of the receiver's certificate
	receiver event
	receives *child
	children int
	services int
	posts    int               // counts posts' runs, so that each has events of its own
	runs     int               // and those of services
	root     string            // of the module
	programs map[string]string // of Go's benchmarks, by their package's folder
}

func (l *lab) say(what string) { l.opt.say("  " + what + " …") }

// openLab starts the receiver.
func openLab(o options, dir string) (l *lab, err error) {
	l = &lab{opt: o, dir: dir, roots: filepath.Join(dir, "receiver.pem")}
	if l.receives, err = l.begin(receiverChild, task{Roots: l.roots}); err != nil {
		return nil, err
	}
	if l.receiver, err = reported(l.receives, eventReady, startMax); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) close() error { return l.receives.Stop(syscall.SIGTERM) }

// begin starts a child.
func (l *lab) begin(kind string, t task) (*child, error) {
	input, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	l.children++
	return measuring.Begin[event](measuring.Command{
		Args:  []string{childArg, kind},
		Input: input,
		Log:   filepath.Join(l.dir, fmt.Sprintf("%s-%d.log", kind, l.children)),
	})
}

// reported waits for an event of a child.
func reported(p *child, kind string, within time.Duration) (found event, err error) {
	err = p.Await("it said "+kind, within, func(events []event) bool {
		for _, e := range events {
			if e.Kind == kind {
				found = e
				return true
			}
		}
		return false
	})
	return found, err
}

// loaded is what a load did.
type loaded struct {
	began     time.Time
	n         int
	warm      int     // sent before
	processor float64 // seconds
	late      float64 // milliseconds
}

// load lets a process append or post, and waits until it has.
func (l *lab) load(ctx context.Context, t task) (done loaded, err error) {
	p, err := l.begin(loadChild, t)
	if err != nil {
		return done, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Stop(syscall.SIGKILL) })
	defer stop()
	end, err := reported(p, eventDone, loadMax)
	if err != nil {
		return done, errors.Join(err, p.Stop(syscall.SIGKILL), lastWords(p.Log()))
	}
	began, err := reported(p, eventBegan, startMax)
	<-p.Ended
	return loaded{
		began:     time.Unix(0, began.At),
		n:         end.N,
		warm:      end.Warm,
		processor: end.Processor,
		late:      end.Late,
	}, errors.Join(err, p.Err)
}

// lastWords are the end of what a process said.
func lastWords(log string) error {
	const most = 500
	text, err := os.ReadFile(log) // #nosec G304 G703 -- the lab's own
	if err == nil && len(text) > 0 {
		err = errors.New(string(text[max(0, len(text)-most):]))
	}
	return err
}

// arrived asks the receiver.
func (l *lab) arrived() counter { return counter{l.receiver.Counter} }

// sentTimes reads when each of a paced load was sent, Unix nanoseconds.
func sentTimes(file string) (sent []int64, err error) {
	text, err := os.ReadFile(file) // #nosec G703 -- the lab's own
	if err == nil {
		err = json.Unmarshal(text, &sent)
	}
	return sent, err
}

// rest waits for what a service may still do behind what was asked of it.
func rest(ctx context.Context, d time.Duration) error {
	return awaitTime(ctx, time.Now().Add(d))
}

// longLabel makes bodies 900 bytes long.
const longLabel = ", the third on the left behind the fountain, open from seven to seven, " +
	"but for the holidays of the town, ask for the owner"

func paymentsTo(account string, endpoints ...string) measuring.Payments {
	return measuring.Payments{Account: account, Endpoints: endpoints, Label: longLabel}
}
