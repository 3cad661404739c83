// Package egress makes all requests of Lumenhook to addresses that users choose. It contains a
// guarded HTTPS client for webhook attempts, the dispatcher that signs and sends them (G5), and the
// checks of URLs and hosts that the API uses.
//
// It takes care of name resolution, the address policy, connection pools, TLS, HTTP/1.1 and HTTP/2.
// An attempt always ends with a Result, which has an error code of the specification ("Delivery
// attempt errors") if the attempt failed.
//
// Invariants:
//
//   - E1 No connection is opened to an address that the Policy forbids. The dialer's control hook
//     checks the address on every dial, after the socket was created and before connect(2). If any
//     of a name's addresses is forbidden, the attempt is blocked, even if others are allowed. With
//     Config.Proxy, the addresses are checked first, but the proxy must check the connection.
//   - E2 An attempt sends its request at most maxSends times, each time on another connection. It
//     is only sent again if none of it was sent, if the receiver reported that it did not process
//     it (HTTP/2: REFUSED_STREAM, or a GOAWAY that names an earlier stream), or if a reused
//     connection ended before the first byte of the response (docs/decisions/egress.md). A reused
//     connection is probed before it is written to.
//   - E3 Config.AttemptTimeout limits the total time for name resolution, connect, handshake,
//     headers and body.
//   - E4 Redirects are not followed, bodies are not decompressed, and proxies are not taken from
//     the environment.
//   - E5 The memory that a receiver can occupy is bounded. This covers headers (32 KiB, including
//     interim responses; HTTP/2 reads up to 128 KiB, so that a longer header fails only its own
//     attempt, not the connection), bodies (Config.MaxBodyBytes are read and StoredBodyBytes kept),
//     idle connections (MaxIdlePerHost and MaxIdle, each for at most MaxConnAge), and the number
//     and size of TLS sessions and names.
//   - E6 The number of bytes that a receiver can make the client read is bounded on all layers. A
//     connection reads no more than its handshake and its attempts may need, so floods of pings,
//     settings or records end it.
//
// The package does not use net/http's Transport, which needs two goroutines and eight goroutine
// switches per request, halves the throughput, and has retry rules that differ from E2. Instead, it
// implements HTTP/1.1 itself, with http.ReadResponse for parsing. For HTTP/2, it uses net/http's
// http.ClientConn, which never retries requests.
//
// The caller limits the concurrency. An HTTP/1.1 attempt has its connection to itself, so the
// number of open connections is at most the number of Posts in flight plus MaxIdle.
//
// Files: client.go configuration and one attempt; result.go results; reason.go stages, codes and
// texts of errors; policy.go, ports.go and url.go what may be reached; dial.go connect and
// handshake; resolver.go and dns.go resolver and its cache; dispatcher.go the engine's attempts as
// requests; proxy.go tunnels; sessions.go TLS sessions; wire.go bounded reading; pool.go idle
// connections; probe.go check of an idle connection; http1.go and http2.go exchanges; try.go
// connecting without a request.
package egress
