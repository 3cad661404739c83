package task

import (
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Action is the next step of a [Core]. The core's owner performs it, reports the result with the
// named method, and requests the next one. A failed action stops the core.
//
// sumtype:decl
type Action interface{ action() }

type (
	// TakeOver makes the owner the only writer of the partition. Reported with OpenState.
	TakeOver struct{}

	// LocateJournal reads the journal's first offset and its end. Reported with LocatedJournal.
	LocateJournal struct{}

	// LocateSnapshots does the same for the snapshot topic. Reported with LocatedSnapshots.
	LocateSnapshots struct{}

	// ReadSnapshots reads some committed records of the snapshot topic between two offsets. Reported
	// with ReadSnapshots.
	ReadSnapshots struct{ From, To int64 }

	// ReadJournal does the same for the journal. Reported with ReadJournal.
	ReadJournal struct{ From, To int64 }

	// Start is performed by Core.Start, which takes the first turn.
	Start struct{}

	// Commit writes records and input positions in one transaction. Reported with Committed.
	Commit struct {
		Records   []kafka.Record
		Positions map[string]int64 // by topic
	}

	// Apply is performed by Core.Apply, whose effects the owner starts.
	Apply struct{}

	// LocateInputs reads the group's input positions and the ends of the inputs. Reported with
	// LocatedInputs.
	LocateInputs struct{}

	// Await waits until one of the clocks reaches its time, and then takes a turn (Core.Decide).
	// Records and completions that arrive earlier may make a turn due ([Core.Due]). While draining,
	// the core takes no inputs.
	Await struct {
		Inputs                   bool
		WallMillis, SteadyMillis int64
	}

	// Done means that the core has stopped. The owner calls Close.
	Done struct{}
)

func (TakeOver) action()        {}
func (LocateJournal) action()   {}
func (LocateSnapshots) action() {}
func (ReadSnapshots) action()   {}
func (ReadJournal) action()     {}
func (Start) action()           {}
func (Commit) action()          {}
func (Apply) action()           {}
func (LocateInputs) action()    {}
func (Await) action()           {}
func (Done) action()            {}
