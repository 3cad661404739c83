// Package brokertest provides Kafka to tests. By default, each test gets the embedded broker with a
// data folder of its own. With the build tag "kafka" (make test-kafka), the tests of a package
// share a real cluster of three brokers, or all packages share one if internal/kafkatest/with runs
// them. Tests don't know which of the two they use, so one suite shows that Lumenhook works on
// both.
//
// Invariants:
//
//   - Tests never see each other's topics, groups and transactional ids if each of them starts
//     all its names with [Broker.Prefix].
//   - A test that calls [Broker.Outage] or changes settings of a broker is [Exclusive] or not
//     parallel.
//   - A package whose tests call [Start] has a TestMain that calls [Main].
//
// File map:
//
//	embedded.go  the embedded broker
//	kafka.go     the real cluster
//	cluster.go   connection settings and topics; simulates a truncated topic
//	log.go       the contents of topics
package brokertest
