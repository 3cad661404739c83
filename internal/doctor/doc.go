// Package doctor checks what a service needs around it: it is `lumenhook doctor`.
//
// It hides whom each check asks, in what time, and what an answer means to an operator: what
// is wrong, and what to do.
//
// Invariants:
//
//   - Nothing is changed: no topic, row, mail or request to a receiver is made. A file is
//     written into the data folder, and removed, to measure the disk.
//   - A check that gets no answer in its time says so; the others are not held up.
//   - What cannot be found out is never taken to be well: also what is left out while the service
//     of a data folder does not run.
//   - No finding has a secret in it: servers are named by their hosts.
//
// File map:
//
//	doctor.go      checks, each in its time, and what they find
//	config.go      what is to be checked
//	settings.go    the configuration, and who may read its files
//	kafka.go       brokers, topics, transactions, rights
//	clickhouse.go  servers, tables, rights, lost parts, disks
//	ledgers.go     sources of ledgers
//	clock.go       this host's clock against those of others
//	egress.go      names, and the way to receivers and to the mail server
//	host.go        the data folder's disk, files, memory
package doctor
