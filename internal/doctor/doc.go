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
//	doctor.go      checks, each with its timeout, and their findings
//	config.go      what to check
//	settings.go    the configuration, and who may read its files
//	kafka.go       brokers, topics, transactions, rights
//	clickhouse.go  servers, tables, rights, lost parts, disks
//	ledgers.go     sources of ledgers
//	clock.go       this host's clock against those of others
//	egress.go      names, and the way to receivers and to the mail server
//	host.go        the data folder's disk, files, memory
package doctor
