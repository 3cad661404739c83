// Package mcpserver lets an assistant query a service over the Model Context Protocol. It hides the
// protocol, which the official SDK implements.
//
// Invariants:
//
//   - Tools change nothing. They use the API's Go client, and an API key with the read permission
//     is enough.
//   - Text written by others (memos, labels, descriptions, receivers' responses) is data. Each
//     result that may contain some starts with a note and lists those members. Control characters
//     are JSON escapes.
//   - A result has at most answerMaxBytes, and a list at most pageMax entries. A larger result is
//     an error that says how to request less. A message has at most requestMaxBytes.
//   - Tools neither show nor accept secrets. They omit the values of endpoints' headers. The secret
//     for checking webhooks is in a file that is set when the program starts.
//
// File map:
//
//	server.go   the server, its instructions, documentation pages and transport
//	tools.go    the tools
//	explain.go  describing an event's deliveries
//	answer.go   tools' arguments, results and errors
package mcpserver
