// Package doctor checks the environment of a service: it is `lumenhook doctor`.
//
// It hides whom each check queries, with what timeout, and what an answer means to an operator:
// what is wrong, and what to do.
//
// Invariants:
//
//   - Nothing is changed: no topic, row, mail or request to a receiver is made. Only a file is
//     written into the data folder, and removed, to measure the disk.
//   - A check that times out says so, and does not delay the others.
//   - An unknown result never counts as good, including checks that are skipped because the service
//     of a data folder does not run.
//   - No finding has a secret in it: servers are named by their hosts.
//
// File map:
//
//	doctor.go      what to check, each check with its timeout, findings; settings and their files
//	kafka.go       brokers, topics, transactions, rights
//	clickhouse.go  servers, tables, rights, lost parts, disks
//	network.go     sources of ledgers, names, receivers, the mail server, the clocks of others
//	host.go        the data folder's disk, files, memory
package doctor
