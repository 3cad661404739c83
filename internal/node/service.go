package node

import "context"

// Service is a part of a process that works from Start to Stop.
type Service interface {
	// Name is its name for people, such as "engine".
	Name() string
	// Start returns once the part works, or cannot. If it fails, Stop releases whatever the
	// part holds. It is called once.
	Start(ctx context.Context) error
	// Stop returns once the part has ended. It may be called again.
	Stop()
	// Ready returns why the part does not do its work at present; nil: it does.
	Ready(ctx context.Context) error
}

// Report is whether a service is ready.
type Report struct {
	Name string
	Err  error // nil: it is ready
}

// Check returns why a service does not do its work at present: one of its loops has failed,
// or it says so itself.
func Check(ctx context.Context, one Service) error {
	if loops, is := one.(interface{ Failing() error }); is {
		if err := loops.Failing(); err != nil {
			return err
		}
	}
	return one.Ready(ctx)
}
