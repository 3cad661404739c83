// Command speed measures how fast the service delivers, beside floors that are measured in the
// same run:
//
//	make bench LINES=deliver,latency REPS=5
//
// The service is the real program (`lumenhook run`: broker, engine, dispatcher, projector, API
// and development network in one process, ClickHouse in a child of it). Who appends the
// matches and who receives the webhooks are processes of their own. All of them, and what else
// the machine does, share its processors.
//
// Lines (-lines):
//
//	deliver   matches are appended at full speed, to 1, 8 and 100 endpoints, without and with
//	          --broker-sync, and a backlog of them is kept up; a run ends when every attempt is
//	          in the history, and counts from the first append. Just before it, of the same
//	          bodies and to the same receiver: a bare net/http client; the product's own egress
//	          client with no more around it; and a process with the same kind of broker, which
//	          takes the same matches from one topic and puts them into another by transactions.
//	latency   from a match's append to its webhook's arrival, on a service at rest at 100/s and
//	          500/s, and at half of the full speed that it had just before. Beside each: a bare
//	          net/http client that posts at the same rate, from a post's beginning to its arrival.
//
//	profile   where the processor time of one delivery goes, at the last of the rates and at
//	          full speed: by process, and within the service by part, from its profile. Here
//	          the service is this program, which does what `lumenhook run` does and can take
//	          profiles; what it shows is not compared with floors.
//
// Each repetition has a service of its own, on an empty data folder. The endpoints are paths of
// one receiver (HTTP/1.1 over TLS, connections are kept).
//
// File map:
//
//	main.go     flags, lines, repetitions
//	lab.go      the processes of a run
//	child.go    what the children are told and report
//	tally.go    counting what arrives
//	receiver.go the receiver
//	load.go     the load: appending and posting at full speed
//	pace.go     the same at a rate
//	relay.go    the floor of Kafka
//	service.go  the real program
//	history.go  what the history holds
//	deliver.go  the deliver lines
//	latency.go  the latency lines
//	profile.go  the profile line
//	report.go   figures beside floors and aims, as text and as JSON
package main
