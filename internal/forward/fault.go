package forward

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// faultsMax bounds the failures of one event.
const faultsMax = 8

// Fault is a failure that an attempt meets on purpose, as the service may meet it. It tries
// again after each, so that a receiver gets an event more than once.
type Fault struct {
	name string
	// status is an answer of something before the receiver, which gets nothing.
	status int
	// half: the connection breaks off in the middle of the body. Otherwise, without a status,
	// the receiver's answer comes too late.
	half bool
}

// ParseFaults reads the names of failures: what an event's first attempts meet, in turn.
func ParseFaults(names []string) ([]Fault, error) {
	if len(names) > faultsMax {
		return nil, fmt.Errorf("%d failures of an event: at most %d", len(names), faultsMax)
	}
	faults := make([]Fault, len(names))
	for i, name := range names {
		status, err := strconv.Atoi(name)
		switch {
		case name == "timeout", name == "reset":
			faults[i] = Fault{name: name, half: name == "reset"}
		case err == nil && status >= 400 && status <= 599:
			faults[i] = Fault{name: name, status: status}
		default:
			return nil, fmt.Errorf("%q: must be a status from 400 to 599, timeout or reset", name)
		}
	}
	return faults, nil
}

// brokenBody ends with an error in the middle, which breaks off the connection.
func brokenBody(body string) io.ReadCloser {
	half := strings.NewReader(body[:len(body)/2])
	return io.NopCloser(io.MultiReader(half, readFault{}))
}

type readFault struct{}

func (readFault) Read([]byte) (int, error) { return 0, errBroken }
