// Package problem is the form in which the API refuses a request: problem+json
// (RFC 9457) with a code, and the faults of a body or a query. It hides the encoding, and
// the table that gives each code its status and title.
//
// Invariants:
//
//   - All codes are in one table (codes.go), with their status. A rejection that this
//     version does not know has the status 409.
//   - The list of faults, and the length of a client's names in it, are bounded.
//   - The cause of a problem goes to the log and never to the client.
//
// File map:
//
//	codes.go    codes of problems and faults, and their statuses
//	problem.go  a problem, as an error and as JSON
//	faults.go   collecting what is wrong with a body
package problem
