// Package gateway stands between the clients of an embedded ClickHouse and the server itself.
//
// `clickhouse local`, which the embedded server is, was not made for clients: any exception that
// leaves the handling of a connection ends the whole process. A refused password on the native
// port is one, bytes that are not its protocol, and a connection that is reset, which every
// client does that closes with an answer half read. So the clients talk to this package, and the
// server hears of them only what it survives:
//
//   - who may not log in over the native protocol is refused here, in the protocol's own words;
//   - a client that leaves, however it does, is an orderly end of input to the server, and what
//     the server still answers is read to its end and dropped;
//   - connections are bounded in number, and the first packet in bytes and time.
//
// What a logged-in client says is passed on unread (on Linux the kernel copies it, splice(2)).
// HTTP is passed on as it is: its refusals are answers, not exceptions.
//
// File map: gateway.go (the relay), native.go (the first packet of the native protocol).
package gateway
