// Package apiserver is the server of the API: the sockets between strangers and
// the handlers. It takes a server with its handler and time limits, and adds
// what belongs to connections and not to requests.
//
// It hides connection bounds, TLS with certificates that are renewed on disk, the
// slowing of those who guess keys, and the answers to what is no HTTP.
//
// Invariants:
//
//   - At most Config.MaxConns connections are open, and MaxConnsPerClient from one
//     address (an IPv6 network of /64 counts as one). What is beyond is closed at
//     once, so that nobody waits in a queue that a stranger filled.
//   - A certificate that changed on disk is used within a second, a broken or
//     half-written pair never: the one before stays.
//   - An address whose keys were refused too often waits for every further
//     refusal; how many may wait is bounded, and the rest are answered 429. A
//     request that is let in is never held up, whatever its neighbours do.
//   - A request that net/http refuses before any handler sees it is answered as the
//     API answers: a problem (RFC 9457). The exception is what is no HTTP inside
//     TLS, where net/http insists on a connection of crypto/tls and answers itself.
//   - The answer to a refused key is the handler's, the same for every reason.
//
// File map:
//
//	server.go       configuration, serving, stopping
//	conns.go        connection bounds
//	keypair.go      the certificate and its reload
//	authlimiter.go  slowing refused keys
//	problem.go      refusals of what no handler sees
package apiserver
