// Package runfile manages the data folder of a service and the file run.json in it, by
// which commands find the running service.
//
// It hides the names of the files, the lock, and how to find out whether a service is
// stopped, is starting, or has died.
//
// Invariants:
//
//   - A folder has one service at a time: it is locked while one uses it.
//   - run.json exists while the service is ready, and names its process: a service that
//     died leaves the file, and Read refuses it.
//   - Files are written atomically, and only their owner may read them.
//   - Secrets are generated once. A folder with data that has lost them is refused: new
//     ones could not open its data.
//
// File map:
//
//	runfile.go  run.json: its members, reading it
//	folder.go   the folder, its lock, its files, its secrets and its network
package runfile
