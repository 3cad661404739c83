// Package clickhouse runs a real ClickHouse server as a supervised child of this program. It hides
// where the server comes from (a clickhouse binary on PATH, or libchdb, installed once through npm
// or from a file, and loaded without cgo into a re-executed copy of our own binary), how it is
// started, monitored, restarted and stopped, and how an orphaned one is ended.
//
// With a configured DSN this package is not used. Otherwise the order is Find (binary on PATH, else
// the library, installed when missing), then Start, then Engine.DSN for clickhouse-go.
//
// The program's main must call [MaybeChild] before anything else, and so must the TestMain of every
// test binary that starts an engine (clickhousetest.Main does): the child is our own executable
// with [ChildArg] as its first argument.
//
// Invariants:
//
//   - One engine per data folder: the folder is locked while its owner lives.
//   - A child never outlives its parent by more than a few seconds, however the parent ends: its
//     standard input is a pipe from the parent, and the query that keeps the server up reads that
//     pipe to its end.
//   - Only loopback addresses are bound: the native port and the HTTP port, which clients use, and
//     two of the server's own behind them.
//   - No client of those two ports can end the server, whatever it sends and however it leaves
//     (gateway.go).
//   - Without one of the two passwords no statement can be executed, on either port, at any moment
//     of a child's life. With them one database can be filled, or read; nothing outside of it can
//     be read or written. An engine that does not enforce this is stopped.
//   - On Linux with Landlock the child can open only its data, programs and libraries, and make no
//     connection.
//   - The addresses and the database of an Engine never change, restarts included.
//   - A library is loaded only if its SHA-256 is the one pinned in deploy/; between two full checks
//     its size and modification time are compared instead.
//   - An acknowledged INSERT survives the death of the child by any signal (it is in the file
//     system); a crash of the machine may lose or tear the last writes, which the guard of package
//     projections notices.
//   - A table definition that cannot be loaded does not affect other tables: it is moved aside.
//
// File map: find.go (binary or library; what can be missing, with the fix), install.go, npm.go,
// archive.go and progress.go (the library in the user's cache), settings.go (addresses, the
// server's configuration file), users.go (users and their rights), child.go and library.go (inside
// the child), confine*.go (the files and ports that it may reach), gateway.go and native.go (the
// proxy between clients and the server), spawn.go (one child's life, seen from the parent),
// engine.go (Start, Stop, supervision), stale.go and process_*.go (a child left behind).
package clickhouse
