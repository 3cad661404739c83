package task

import (
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Action is the next step that a [Core] asks its owner to perform. The owner performs it, reports
// the result with the method that the action names, and asks for the next action. A failed action
// ends the core.
//
// sumtype:decl
type Action interface{ action() }

type (
	// TakeOver makes the owner the only writer of the partition. Reported with TookOver.
	TakeOver struct{}

	// LocateJournal reads the journal's first and end offsets. Reported with LocatedJournal.
	LocateJournal struct{}

	// LocateSnapshots reads the first and end offsets of the snapshot topic. Reported with
	// LocatedSnapshots.
	LocateSnapshots struct{}

	// ReadSnapshots reads some or all committed records of the snapshot topic from offset From up
	// to To. Reported with ReadSnapshots.
	ReadSnapshots struct{ From, To int64 }

	// ReadJournal reads some or all of the journal's committed records from offset From up
	// to To. Reported with ReadJournal.
	ReadJournal struct{ From, To int64 }

	// Start has the core take its first turn. Reported with Start.
	Start struct{}

	// Commit writes records and input positions in one transaction. Reported with
	// Committed.
	Commit struct {
		Records   []kafka.Record
		Positions map[string]int64 // by topic
	}

	// Apply has the core commit the turn's state, and starts the effects that Core.Apply returns.
	Apply struct{}

	// LocateInputs reads the group's committed positions of the inputs, and their end
	// offsets. Reported with LocatedInputs.
	LocateInputs struct{}

	// Await waits until one of the two clocks reaches its time, and then has the core take a turn
	// (Decide). Records or completions that arrive in the meantime (Arrived, Completed) may make a
	// turn due at once, or soon ([Core.Due]). While the core drains, it takes no inputs.
	Await struct {
		Inputs                   bool
		WallMillis, SteadyMillis int64
	}

	// Done reports that the core has ended. Reported with Close.
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
