package nodeflags

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/startstop"
	"github.com/lumenhook/lumenhook/internal/telemetry"
)

// tracingFlags are those of traces.
type tracingFlags struct {
	endpoint string
	ratio    float64
}

func (s *tracingFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.endpoint, "traces-endpoint", "", "URL at which a collector takes traces "+
		"(OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces; empty: none")
	f.Float64Var(&s.ratio, "traces-ratio", 1, "part of the events whose traces are kept, "+
		"above 0 and up to 1; the same events in every process")
}

func (s *tracingFlags) check() (faults []error) {
	u, err := url.Parse(s.endpoint)
	if s.endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		faults = append(faults, fmt.Errorf("--traces-endpoint %q: must be a URL such as "+
			"http://127.0.0.1:4318/v1/traces", s.endpoint))
	}
	if !(s.ratio > 0 && s.ratio <= 1) {
		faults = append(faults,
			fmt.Errorf("--traces-ratio \"%v\": must be above 0 and at most 1", s.ratio))
	}
	return faults
}

func (s *tracingFlags) start(
	ctx context.Context, stack *startstop.Stack, instance string,
) (*telemetry.Tracing, error) {
	if s.endpoint == "" {
		return nil, nil
	}
	t, err := telemetry.NewTracing(ctx, telemetry.TracingConfig{
		Endpoint:    s.endpoint,
		SampleRatio: s.ratio,
		Version:     cli.ThisBuild().Version,
		Instance:    instance,
		Logger:      stack.Logger,
	})
	if err != nil {
		return nil, err
	}
	stack.OnStop(func() {
		if err := t.Close(); err != nil {
			stack.Logger.Warn("ending the traces", "error", err)
		}
	})
	return t, nil
}
