// Package egress makes all requests of Lumenhook to addresses that users chose: one guarded
// HTTPS client for webhook attempts, the dispatcher that signs and posts them (G5), and the
// same checks of URLs and hosts for the API.
//
// It hides name resolution, the address policy, connection pools, TLS, HTTP/1.1
// and HTTP/2, and turns whatever a receiver does into one Result with a code of
// the specification ("Delivery attempt errors").
//
// Invariants:
//
//   - E1 No connection is opened to an address the Policy forbids. The concrete address
//     is checked in the dialer's control hook, after the socket exists and before
//     connect(2), on every dial; a forbidden address among a name's addresses blocks the
//     attempt even if others are allowed. With Config.Proxy it is the proxy that connects:
//     the addresses are checked here first, the connection must be checked there.
//   - E2 One attempt sends its request at most maxSends times, each time on another
//     connection. It sends it again only if none of it was sent, if the receiver said that it
//     did not process it (HTTP/2: REFUSED_STREAM, or a GOAWAY that names an earlier stream), or
//     if a connection that other requests had used ended before a byte of the response
//     (docs/decisions/egress.md). A reused connection is probed before it is written to.
//   - E3 One budget (Config.AttemptTimeout) covers name resolution, connect,
//     handshake, headers and body.
//   - E4 Redirects are never followed, bodies never decompressed, proxies never
//     taken from the environment.
//   - E5 The memory that a receiver can occupy is bounded: 32 KiB of headers (interim
//     responses included; HTTP/2 reads up to 128 KiB of them, so that a longer header ends its
//     own attempt and not its connection), Config.MaxBodyBytes read, StoredBodyBytes kept,
//     Config.MaxIdlePerHost and MaxIdle idle connections, each living at most
//     Config.MaxConnAge; TLS sessions and names, in number and in size.
//   - E6 The bytes that a receiver can make us read are bounded: a connection reads no
//     more than is granted to its handshake and its attempts, on whatever layer, so that
//     floods of pings, settings or records end it.
//
// Why not net/http's Transport: it costs two goroutines and eight switches between
// goroutines a request, which is half the throughput, and its rules for repeating a request
// are not those of E2. HTTP/1.1 is therefore spoken here (responses are parsed by
// http.ReadResponse); HTTP/2 is net/http's own, one http.ClientConn at a time, which never
// repeats a request.
//
// Concurrency is bounded by the caller: an HTTP/1.1 attempt uses one connection
// for itself, so open connections are at most the Posts in flight plus MaxIdle.
//
// Files: client.go configuration and one attempt; result.go results; reason.go stages, and the
// code and text of errors; policy.go, ports.go and url.go what may be reached; dial.go connect
// and handshake; resolver.go and dns.go names and their cache; dispatcher.go attempts of the
// engine as requests; proxy.go tunnels; sessions.go TLS sessions; wire.go metered and bounded
// reading; pool.go idle connections; probe.go whether one of them is still usable; http1.go and
// http2.go the exchanges; try.go the way to a receiver without a request.
package egress
