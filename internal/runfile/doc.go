// Package runfile is the data folder of a service and the file run.json in it, by which
// commands find the service that runs there.
//
// It hides the names of the files, the lock, and how a folder without run.json is told
// from one whose service has been stopped, is starting, or has died.
//
// Invariants:
//
//   - A folder has one service at a time: it is locked while one works in it.
//   - run.json is there while the service is ready, and names its process: a service
//     that died leaves the file, and Read refuses it.
//   - Files appear whole or not at all, and only their owner may read them.
//   - Secrets are drawn once. A folder that has data and has lost them is refused: new
//     ones would open nothing of it.
//
// File map:
//
//	runfile.go  run.json: its members, reading it
//	folder.go   the folder, its lock and what is written there
//	secrets.go  the API key and the logins that a folder keeps
package runfile
