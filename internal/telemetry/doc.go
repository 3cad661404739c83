// Package telemetry makes a running process observable: metrics of the Kafka clients for
// Prometheus, and traces for OpenTelemetry.
//
// An event has one trace, from the ledger that it was found in to its last attempt, days
// later and by whichever process. Nothing is stored for that: the trace's id, and that of
// its first span, are derived from the event's id ([EventTrace]). So a ledger that is read
// again, a state that is rebuilt and a partition that moves continue the same trace, and an
// event's trace can be found by the event's id. Whether a trace is sampled is decided by
// its id too, so all processes decide alike.
//
// Files: kafka.go the clients' metrics; tracing.go an event's trace, spans and where they are sent.
package telemetry
