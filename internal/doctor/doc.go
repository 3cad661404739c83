// Package doctor checks the environment of a service, for `lumenhook doctor`.
//
// It hides which servers each check queries, its timeouts, and what the results mean for an
// operator: what is wrong and what to do.
//
// Invariants:
//
//   - Checks change nothing: they create no topics or rows, and send no emails or requests to
//     receivers. To measure the disk, they write a file to the data folder and remove it.
//   - A check that times out reports it, and doesn't delay the others.
//   - An unknown result never counts as good. This includes checks that are skipped because the
//     data folder's service is not running.
//   - Findings contain no secrets. They name servers by their hosts.
//
// File map:
//
//	doctor.go      what to check, running checks with a timeout, findings; settings and their files
//	kafka.go       brokers, topics, transactions, permissions
//	clickhouse.go  servers, tables, permissions, lost parts, disks
//	network.go     ledger sources, DNS, receivers, the mail server, other servers' clocks
//	host.go        the data folder's disk, files, memory
package doctor
