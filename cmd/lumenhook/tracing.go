package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/startstop"
	"github.com/lumenhook/lumenhook/internal/telemetry"
)

// tracingSettings are the flags of traces.
type tracingSettings struct {
	endpoint string
	ratio    float64
}

func (s *tracingSettings) register(f *pflag.FlagSet) {
	f.StringVar(&s.endpoint, "traces-endpoint", "", "URL at which a collector takes traces (OTLP over HTTP), such as http://127.0.0.1:4318/v1/traces; empty: none")
	f.Float64Var(&s.ratio, "traces-ratio", 1, "part of the events whose traces are kept, above 0 and up to 1; the same events in every process")
}

func (s *tracingSettings) check() (faults []error) {
	if u, err := url.Parse(s.endpoint); s.endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		faults = append(faults, fmt.Errorf("--traces-endpoint %q: must be a URL such as http://127.0.0.1:4318/v1/traces", s.endpoint))
	}
	if !(s.ratio > 0 && s.ratio <= 1) {
		faults = append(faults, fmt.Errorf("--traces-ratio \"%v\": %w", s.ratio, errors.New("must be above 0 and at most 1")))
	}
	return faults
}

// start makes the tracing, which the stack ends; nil without a collector.
func (s *tracingSettings) start(ctx context.Context, stack *startstop.Stack, instance string, l *slog.Logger) (*telemetry.Tracing, error) {
	if s.endpoint == "" {
		return nil, nil
	}
	t, err := telemetry.NewTracing(ctx, telemetry.TracingConfig{
		Endpoint: s.endpoint, SampleRatio: s.ratio, Version: cli.ThisBuild().Version, Instance: instance, Logger: l,
	})
	if err != nil {
		return nil, err
	}
	stack.OnStop(func() {
		if err := t.Close(); err != nil {
			l.Warn("ending the traces", "error", err)
		}
	})
	return t, nil
}
