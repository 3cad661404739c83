// Package telemetry lets an operator look into a running process: metrics of the
// Kafka clients for Prometheus, and traces for OpenTelemetry.
//
// An event has one trace, from the ledger that it was found in to its last
// attempt, days later and by whichever process. Nothing is kept for that: the
// trace's id, and that of its first span, are a function of the event's id
// ([EventTrace]). So a ledger that is read again, a state that is rebuilt and
// a partition that moves continue with the same trace, and whoever knows an event
// can name its trace. Whether a trace is kept is decided by its id too, so all
// processes decide alike.
//
// Files: event.go an event's trace; kafka.go the clients' metrics; tracing.go spans and where
// they are sent.
package telemetry
