// Package ingress protects the ports of this process. It hides how connections are limited, which
// one is closed when there are too many, how many file descriptors are reserved for the process,
// which headers browsers send, and which of these headers can be trusted.
//
// A web page can make its visitor's browser send requests anywhere (cross-site request forgery). It
// can also point its own host name to 127.0.0.1, to read the responses as well (DNS rebinding). It
// cannot change Host, Origin or Sec-Fetch-Site, which the browser sets. net/http's
// CrossOriginProtection isn't enough, because it allows every GET, and a devnet's friendbot acts on
// GET. It doesn't check Host either.
//
// Invariants of connections:
//
//   - A listener has at most Config.Max connections, and at most Config.Share of the process's
//     descriptors. The shares of all listeners together leave a third for the service's own files
//     and outgoing connections.
//   - One address has at most Config.MaxPerAddress connections, and at most three quarters of the
//     listener's. An IPv6 /64 network counts as one address. Config.Proxies are exempt.
//   - At a limit, a new connection replaces the one that has been waiting longest, that is, one
//     that has not logged in or has no request in progress. So idle connections lock nobody out,
//     and no request is cut off. If no connection is waiting, the new one is closed.
//   - Accept only returns an error when the listener is closed. It retries after other errors.
//
// Places bound what runs at once for one holder and for all, whatever it is: requests, waits,
// streams, refusals.
//
// Invariants of web pages:
//
//   - A request whose Host is a name that isn't the server's is rejected with 421. An IP address
//     in Host is accepted, because it cannot result from rebinding.
//   - A request from a page of another origin is rejected with 403. Requests from programs have
//     neither Origin nor Sec-Fetch-Site and are accepted.
//   - A path that two components may interpret differently, for example one with %2F, is rejected
//     with 404.
//   - A rejected request doesn't reach a handler, and its body isn't read.
//   - Only configured origins may read responses (CORS).
//
// File map:
//
//	listener.go   connections
//	guard.go      web pages
//	places.go     how much of each account runs at once
package ingress
