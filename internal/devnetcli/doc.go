// Package devnetcli is what the commands of `lumenhook devnet` do: it finds the development
// network of a running service, holds what was typed against what the network takes, and
// receives webhooks as a merchant's server must.
//
// Invariant: a secret key that was given in the place of an address is never repeated.
//
// File map:
//
//	network.go   the network of a data folder's service
//	payment.go   the flags of a payment
//	values.go    wallets, assets and amounts as people write them
//	receiver.go  a receiver of webhooks
//	received.go  a webhook as a line of JSON, for who checks its signature
package devnetcli
