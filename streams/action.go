package streams

// Action is what the owner of a [Core] does next. When it has, it says so by the method
// that the action names, and asks for the next one. One that fails ends the core.
//
//sumtype:decl
type Action interface{ action() }

type (
	// TakeOver makes the owner the only writer of the partition: TookOver.
	TakeOver struct{}

	// LocateJournal asks where the journal begins and ends: LocatedJournal.
	LocateJournal struct{}

	// ReadJournal reads committed records of the journal, some or all of those from an
	// offset on, up to another: ReadJournal.
	ReadJournal struct{ From, To int64 }

	// Commit writes records and input positions in one transaction: Committed.
	Commit struct {
		Records   []Record
		Positions map[string]int64 // by topic
	}

	// Apply has the core fold what was committed into its state, and starts the
	// effects that it returns: Apply.
	Apply struct{}

	// LocateInputs asks how far the group knows the inputs as taken, and where they
	// end: LocatedInputs.
	LocateInputs struct{}

	// Await waits until something was given by Arrived or Completed, or until a time
	// by one of the clocks, and has the core take a turn: Decide. Inputs are wanted
	// unless the core drains.
	Await struct {
		Inputs                   bool
		WallMillis, SteadyMillis int64
	}

	// Done is the end: Close.
	Done struct{}
)

func (TakeOver) action()      {}
func (LocateJournal) action() {}
func (ReadJournal) action()   {}
func (Commit) action()        {}
func (Apply) action()         {}
func (LocateInputs) action()  {}
func (Await) action()         {}
func (Done) action()          {}
