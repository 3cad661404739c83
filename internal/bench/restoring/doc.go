// Command restoring measures how an engine gets a state back when the journal is long, on the
// embedded broker and with the engine's own code, in processes of their own:
//
//	make bench-restore PAST=10000000 WAITING=100000 PARTITIONS=4
//
// It makes a deployment once, in which so many deliveries wait and so many were made after
// them, and keeps it in the user's cache folder; each run measures on a copy. Its steps
// (-steps) are
//
//	cold      an engine without local state: from the newest snapshots and the journal's tail
//	local     the same with its state, of an engine that ended and of one that was killed
//	takeover  an engine with standbys takes over from one that ends, and from one that is killed
//	fold      the whole journal, and whether the states are equal
//	topics    what the topics hold while deliveries are made and retention deletes
//	cost      what writing snapshots costs the deliver path, over HTTP
//
// Each prints its figures beside the aim, and the load of the machine meanwhile. What was read
// before is in the page cache, as after the death of a process on a machine that goes on.
//
// File map:
//
//	main.go     flags, steps, and the deployment's folder
//	fill.go     making the deployment
//	payments.go the deliveries
//	copy.go     copying the deployment's folder
//	child.go    the processes that are measured
//	parent.go   starting them, and what they report
//	steps.go    cold, local, fold
//	takeover.go takeover
//	path.go     topics and cost
//	report.go   figures, load and results
package main
