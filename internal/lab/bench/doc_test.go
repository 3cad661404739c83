// Package bench benchmarks the whole service, and parts of it that have no package of their own.
// make bench runs these benchmarks and those of other packages, and writes the results as the table
// of docs/benchmarks.md (internal/lab/bench/table).
//
// Each benchmark is a single measurement, for -benchtime 1x. A metric "floor-X" is the floor of the
// metric X, measured in the same run.
//
// The service is the real program (`lumenhook run`) in a separate process. The load and the
// receiver are in this process.
//
// File map:
//
//	rig_test.go       an engine with an in-process broker
//	waiting_test.go   pending deliveries, takeovers, endpoints that hang
//	due_test.go       delay of due deliveries, and the cost of an endpoint
//	ordering_test.go  deliveries in the order of a wallet
//	service_test.go   the real program, its resource usage, and the contents of its history
//	load_test.go      the load: matches and bare posts, at full speed and at a fixed rate
//	deliver_test.go   deliveries at full speed: floors, history, backlog, memory
//	latency_test.go   from a match's append to its webhook's arrival
//	close_test.go     from a ledger's close to the webhook's arrival
//	kafka_test.go     deliveries on three real brokers
//	restore_test.go   starts of a service with existing data
//	small_test.go     a quick run of each
package bench
