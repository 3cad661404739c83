// Package ledgerflags is the flags by which every command reaches a Stellar network, in
// one place: which network, and from where its ledgers come.
//
// It hides the public servers of networks that have some, how flags of several kinds of
// sources are held against each other, and how a source is made of them.
//
// File map:
//
//	flags.go     Flags: where ledgers come from
//	accounts.go  who is asked what accounts hold
//	servers.go   each server by itself, for `lumenhook doctor`
package ledgerflags
