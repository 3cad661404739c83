package startstop

import "context"

// Service is a part of a process that works from Start to Stop.
type Service interface {
	// Name is what a person calls it, such as "engine".
	Name() string
	// Start returns once the part works, or cannot. A part that failed to start
	// holds nothing that Stop would not free. It is called once.
	Start(ctx context.Context) error
	// Stop returns once the part has ended. It may be called again.
	Stop()
	// Ready says why the part does not do its work at present; nil: it does.
	Ready(ctx context.Context) error
}

// Report is whether a service is ready.
type Report struct {
	Name string
	Err  error // nil: it is ready
}
