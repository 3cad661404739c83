// Package apiserver is the server of the API: the connections between the public and the
// handlers. It takes a server with its handler and time limits, and adds what concerns
// connections rather than requests.
//
// It hides connection bounds, TLS with certificates that are renewed on disk, the delaying
// of clients that guess keys, and the answers to what is not HTTP.
//
// Invariants:
//
//   - At most Config.MaxConns connections are open, and MaxConnsPerClient from one
//     address (an IPv6 network of /64 counts as one). More are closed at once, so that
//     nobody waits in a queue that an attacker filled.
//   - A certificate that changed on disk is used within a second, a broken or
//     half-written pair never: the previous one stays.
//   - An address whose keys were refused too often waits for every further refusal; how
//     many may wait is bounded, and the rest are answered 429. An accepted request is
//     never delayed, whatever others do.
//   - A request that net/http refuses before any handler sees it is answered in the
//     API's form: a problem (RFC 9457). The exception is non-HTTP data inside TLS, where
//     net/http requires a connection of crypto/tls and answers itself.
//   - The answer to a refused key is the handler's, the same for every reason.
//
// File map:
//
//	server.go       configuration, serving, stopping
//	conns.go        connection bounds
//	keypair.go      the certificate and its reload
//	authlimiter.go  delaying refusals of keys
//	problem.go      refusals of requests that no handler sees
package apiserver
