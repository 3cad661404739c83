// Package ingress protects the ports of this process. It hides how connections are counted, which
// one is closed when there are too many, how many file descriptors are kept for the process, which
// headers browsers send, and which of them can be trusted.
//
// A web page may make its visitor's browser send requests anywhere (cross-site request forgery),
// and may have its own name point to 127.0.0.1 so that it also reads the answers (DNS rebinding).
// Neither can change Host, Origin or Sec-Fetch-Site, which the browser writes. net/http's
// CrossOriginProtection permits every GET and does not check Host; the friendbot of a development
// network acts on GET.
//
// Invariants of connections:
//
//   - A listener has at most Config.Max connections, and at most Config.Share of the process's
//     descriptors. The shares of all listeners leave a third for the service's own files and its
//     connections to others.
//   - One address has at most Config.MaxPerAddress connections, and at most three quarters of the
//     listener's. An IPv6 network of /64 counts as one address. Config.Proxies are exempt.
//   - When a bound is reached, a new connection replaces the one that has waited longest: that has
//     not logged in, or has no request in progress. So idle connections lock nobody out, and no
//     request is cut off. If none waits, the new connection is closed.
//   - Accept returns an error only when the listener is closed. It retries everything else.
//
// Invariants of web pages:
//
//   - A name in Host that is not the server's is refused with 421. An address in Host cannot be the
//     result of rebinding.
//   - A request that a page of another origin sent is refused with 403. Requests of programs have
//     neither Origin nor Sec-Fetch-Site and are let through.
//   - A path that two parts may read differently, such as one with %2F, is refused with 404.
//   - A refused request reaches no handler, and its body is not read.
//   - An answer reveals nothing to another origin: only configured origins get permission to read
//     it (CORS).
//
// File map:
//
//	listener.go   connections
//	guard.go      web pages
package ingress
