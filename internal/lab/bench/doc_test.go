// Package bench benchmarks the whole service, and the parts of it that have no package of their
// own. make bench runs these benchmarks and those of other packages, and makes the table of
// docs/benchmarks.md from what they report (internal/lab/bench/table).
//
// Each benchmark is one measurement, for -benchtime 1x. A metric "floor-X" is the floor of the
// metric X, measured in the same run.
//
// The service is the real program (`lumenhook run`), in a process of its own. The load and the
// receiver are in this process.
//
// File map:
//
//	rig_test.go       an engine with a broker in this process
//	waiting_test.go   deliveries that wait, take-overs, endpoints that hang
//	due_test.go       how late deliveries are attempted, and what an endpoint takes
//	ordering_test.go  deliveries in the order of a wallet
//	service_test.go   the real program, what it uses, and what its history holds
//	load_test.go      the load: matches and bare posts, at full speed and at a rate
//	deliver_test.go   deliveries at full speed: floors, history, backlog, memory
//	latency_test.go   from a match's append to its webhook's arrival
//	close_test.go     from a ledger's close to arrival
//	kafka_test.go     deliveries on three real brokers
//	restore_test.go   starts of a service with a past
//	small_test.go     each of these for a moment
package bench
