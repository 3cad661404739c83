// Package egress makes all requests of Lumenhook to addresses that users choose. It contains a
// guarded HTTPS client for webhook attempts, the dispatcher that signs and sends them (G5), and the
// checks of URLs and hosts that the API uses.
//
// It takes care of name resolution, the address policy, the connection pool, TLS and HTTP/1.1. An
// attempt always ends with a Result, which has an error code of the specification ("Delivery
// attempt errors") if the attempt failed.
//
// Invariants:
//
//   - E1 No connection is opened to an address that the Policy forbids. The dialer's control hook
//     checks the address on every dial, after the socket was created and before connect(2). If any
//     of a name's addresses is forbidden, the attempt is blocked, even if others are allowed. With
//     Config.Proxy, the addresses are checked first, but the proxy must check the connection.
//   - E2 An attempt sends its request once. It sends it a second time, on a new connection, only if
//     a reused connection ended before the first byte of the response (docs/decisions/egress.md). A
//     reused connection is probed before it is written to.
//   - E3 Config.AttemptTimeout limits the total time for name resolution, connect, handshake,
//     headers and body.
//   - E4 Redirects are not followed, bodies are not decompressed, and proxies are not taken from
//     the environment.
//   - E5 The memory that a receiver can occupy is bounded. This covers headers (32 KiB, including
//     interim responses), bodies (Config.MaxBodyBytes are read and StoredBodyBytes kept),
//     idle connections (MaxIdlePerHost and MaxIdle, each for at most MaxConnAge), and the number
//     and size of TLS sessions and names.
//   - E6 The number of bytes that a receiver can make the client read is bounded on all layers. A
//     connection reads no more than its handshake and its attempts may need, so floods end it.
//
// The package does not use net/http's Transport, which needs two goroutines and eight goroutine
// switches per request, halves the throughput, and has retry rules that differ from E2. Instead, it
// implements HTTP/1.1 itself, with http.ReadResponse for parsing. It does not offer HTTP/2
// (docs/decisions/egress.md).
//
// The caller limits the concurrency. An attempt has its connection to itself, so the
// number of open connections is at most the number of Posts in flight plus MaxIdle.
//
// Files: client.go configuration and one attempt; result.go results; reason.go stages, codes and
// texts of errors; policy.go, ports.go and url.go what may be reached; dial.go connect and
// handshake; resolver.go and dns.go resolver and its cache; dispatcher.go the engine's attempts as
// requests; proxy.go tunnels; sessions.go TLS sessions; wire.go bounded reading; pool.go idle
// connections; probe.go check of an idle connection; connection.go exchanges; try.go connecting
// without a request.
package egress
