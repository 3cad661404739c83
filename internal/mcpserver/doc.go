// Package mcpserver answers an assistant's questions about a service by the Model Context
// Protocol. It hides the protocol, which the official SDK speaks.
//
// Invariants:
//
//   - Nothing that a tool does changes anything: all of them read, by the Go client of the API,
//     and a key with the permission to read is enough.
//   - What others have written (memos, labels, descriptions, receivers' answers) is data: each
//     answer that may have some names the members, and says so before them. Control characters
//     are JSON's escapes.
//   - An answer has at most answerMaxBytes, and a list at most pageMax entries: more is an error
//     that says how to ask for less.
//   - A request has at most requestMaxBytes, and askedAtOnce are answered at once: more stay
//     in the pipe, also while nobody reads the answers.
//   - No secret is shown, and none is asked for: values of endpoints' headers are left out, and
//     the secret of a webhook's check is in a file that whoever started the program has named.
//
// File map:
//
//	server.go     the tools, the resources, and what is told of them all
//	stdio.go      bounds around the SDK's transport of standard input and output
//	arguments.go  what a tool does not take is refused in words
//	answer.go     how an answer is written, and an error explained
//	endpoints.go  endpoints and watches
//	events.go     events, and those that wait
//	history.go    what an endpoint, a watch or an event was
//	explain.go    an event's deliveries in words
//	ledgers.go    statements and coverage
//	verify.go     the check of a webhook's signature
package mcpserver
