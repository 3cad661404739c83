// Command speed makes the table of docs/benchmarks.md: how fast the service is and what it takes,
// beside the aims, and beside floors that are measured in the same run:
//
//	make bench LINES=all REPS=5
//
// The service is the real program (`lumenhook run`: broker, engine, dispatcher, projector, API
// and development network in one process, ClickHouse in a child of it). Who appends the
// matches and who receives the webhooks are processes of their own. All of them, and what else
// the machine does, share its processors. -help says how long each line takes.
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
//	close     payments on the development network of `lumenhook run`: from the last
//	          moment at which a ledger could not be read at its RPC, which is asked every 2 ms, to
//	          the webhooks' arrival.
//	extract, catchup, match, waiting, hanging, rebuild, api
//	          Go's benchmarks of the parts, which stand beside them and are run as they are.
//	kafka     deliver and latency of `lumenhook serve` on three brokers of Apache Kafka; beside
//	          the latency, too: transactions of the same matches at the same rate, alone.
//	memory    of one endpoint, by a Go benchmark; of the service at rest and at full speed; and
//	          how long it takes from its start until it is ready, on a folder that it has used.
//	history   deliver on a deployment that has past deliveries, just after one that has none. It
//	          was made by delivering them, is kept in the user's cache folder, and grows.
//	backlog   deliver when all of many matches are there before the first is delivered, just
//	          after a run that has few ahead at any time.
//
//	profile   where the processor time of one delivery goes, at the last of the rates and at
//	          full speed: by process, and within the service by part, from its profile. Here
//	          the service is this program, which does what `lumenhook run` does and can take
//	          profiles; what it shows is not compared with floors.
//
// Each repetition has a service of its own, on an empty data folder. The endpoints are paths of
// one receiver (HTTP/1.1 over TLS, connections are kept).
//
// Each step that ends is appended to a file, with the commit, the machine and the settings; with
// -resume what stands there is not measured again. What a step could not measure is said in the
// table, and the others go on.
//
// File map:
//
//	main.go     flags
//	plan.go     lines, their steps, repetitions, how long it takes
//	records.go  what was measured, as it is kept
//	figures.go  figures beside floors and aims
//	rows.go     which figures the runs of services make
//	report.go   the table as text, and all figures as JSON
//	markdown.go the table as Markdown, in a document
//	lab.go      the processes of a run
//	child.go    what the children are told and report
//	tally.go    counting what arrives
//	receiver.go the receiver
//	load.go     the load: appending and posting at full speed
//	pace.go     the same at a rate
//	commits.go  transactions alone, at a rate
//	relay.go    the floor of Kafka
//	service.go  the real program
//	history.go  what the history holds
//	deliver.go  the deliver lines
//	latency.go  the latency lines
//	close.go    the line close
//	gobench.go  running Go's benchmarks and reading what they report
//	golines.go  the lines of these
//	kafka.go    the line kafka
//	memory.go   the line memory
//	past.go     the lines history and backlog
//	profile.go  the profile line
package main
