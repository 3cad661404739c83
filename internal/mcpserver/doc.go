// Package mcpserver answers an assistant's questions about a service by the Model Context
// Protocol. It hides the protocol, which the official SDK speaks.
//
// Invariants:
//
//   - A tool changes nothing: all of them read, by the Go client of the API, and a key with the
//     permission to read is enough.
//   - What others have written (memos, labels, descriptions, receivers' answers) is data: each
//     answer that may have some names the members, and says so before them. Control characters
//     are JSON's escapes.
//   - An answer has at most answerMaxBytes, and a list at most pageMax entries: more is an error
//     that says how to ask for less. A message has at most requestMaxBytes.
//   - No secret is shown, and none is asked for: values of endpoints' headers are left out, and
//     the secret of a webhook's check is in a file that was named when the program was started.
//
// File map:
//
//	server.go   the server, its instructions, pages and transport
//	tools.go    the tools
//	explain.go  an event's deliveries in words
//	answer.go   how a tool takes arguments, answers, and refuses
package mcpserver
