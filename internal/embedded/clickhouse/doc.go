// Package clickhouse runs a real ClickHouse server as a supervised child process. It hides where
// the server comes from: a clickhouse binary on PATH, or libchdb, which is installed once (with npm
// or from a file) and loaded, without cgo, into a re-executed copy of our own binary. It also hides
// how the server is started, monitored, restarted and stopped, and how an orphaned one is ended.
//
// The package isn't used if a DSN is configured. Otherwise, call Find (a binary on PATH, or else
// the library, which is installed if it is missing), then Start, and connect clickhouse-go to
// Engine.DSN.
//
// The program's main must call [MaybeChild] before anything else, because the child is our own
// executable with [ChildArg] as its first argument. So must the TestMain of every test binary that
// starts an engine, which clickhousetest.Main does.
//
// Invariants:
//
//   - One engine per data folder: the folder is locked while its owner lives.
//   - A child never outlives its parent by more than a few seconds, however the parent ends. Its
//     standard input is a pipe from the parent, and the query that keeps the server running reads
//     that pipe to its end.
//   - Only loopback addresses are bound: the native port and the HTTP port for clients, and two
//     internal ports of the server behind them.
//   - No client of these two ports can make the server exit, no matter what it sends or how it
//     disconnects (gateway.go).
//   - Without a password, no statement can be executed on either port, at any time. With one of our
//     two passwords, a client can fill or read one database, and nothing else. An engine that
//     doesn't enforce this is stopped. The operator can add users in users.d of the data folder.
//     They log in over HTTP only.
//   - On Linux with Landlock, the child can only open its data, programs and libraries, and cannot
//     make connections.
//   - The addresses and the database of an Engine never change, not even in a restart.
//   - A library is only loaded if its SHA-256 is the one pinned in deploy/. Between full checks,
//     its size and modification time are compared instead.
//   - An acknowledged INSERT survives any signal that kills the child, because it is in the file
//     system. A crash of the machine may lose or tear the last writes, which the guard of package
//     projections detects.
//   - A table definition that cannot be loaded is moved aside and doesn't affect other tables.
//
// File map: find.go (binary or library; what may be missing, and how to fix it), install.go,
// npm.go, archive.go and progress.go (the library in the user's cache), settings.go (addresses, the
// server's configuration file), users.go (users and their privileges), child.go and library.go
// (inside the child), confine*.go (files and ports that the child can access), gateway.go and
// native.go (the proxy between clients and the server), kill.go (queries of clients that left),
// spawn.go (a child's life as seen by the parent), engine.go (Start, Stop, supervision), stale.go
// and process_*.go (an orphaned child).
package clickhouse
