// Package pki is a run's own certificate authority: it issues the certificates of the demo
// receiver and of other receivers on this machine.
//
// Its certificate is constrained to loopback names and addresses, so that
// trusting it, in a browser or in a client, trusts nothing else.
//
// Invariants:
//
//   - P1 The key and its certificate are one file, written by rename: a kill at
//     any moment leaves the old authority or the new one, never half of each.
//   - P2 Private keys are readable by their owner alone (0600, folder 0700).
//   - P3 A certificate near its end is renewed with the same key and name, so
//     what the authority issued before stays valid under the new certificate.
//
// Files: ca.go the authority; issue.go what it issues; files.go PEM and
// writing by rename; authorities.go files of other authorities.
package pki
