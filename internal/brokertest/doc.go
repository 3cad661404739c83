// Package brokertest provides tests with Kafka: the embedded broker on a data folder of the
// test's own or, built with the tag "kafka" (make test-kafka), a real cluster of three
// brokers that the tests of a package share, and all packages if internal/kafkatest/with
// runs them. So one suite shows that the product works on both brokers.
//
// It hides which of the two it is.
//
// Invariants:
//
//   - Two tests never see each other's topics, groups and transactional ids, as
//     long as both put [Broker.Prefix] before all of them.
//   - A package whose tests call [Start] has a TestMain that calls [Main].
//
// File map:
//
//	embedded.go  the embedded broker
//	kafka.go     the real cluster
//	cluster.go   its connection settings and topics; a topic that was cut
//	log.go       the content of topics
package brokertest
