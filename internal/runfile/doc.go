// Package runfile manages a service's data folder and its run.json, through which commands find the
// running service.
//
// It hides the names of the files, the lock, and how to tell whether a service is stopped, starting
// or dead.
//
// Invariants:
//
//   - A folder has one service at a time. The service locks it.
//   - run.json exists while the service is ready, and contains its process id. A service that
//     died leaves the file behind, and Read returns an error.
//   - Files are written atomically, and only their owner can read them.
//   - Secrets are generated once. A folder that contains data but has lost its secrets is an
//     error, because new secrets could not decrypt the data.
//
// File map:
//
//	runfile.go  run.json: its members and reading it
//	folder.go   the folder: its lock, files, secrets, network, and why it does not run
package runfile
