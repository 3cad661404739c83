// Package domain is the core of Lumenhook: accounts, endpoints, watches, payments, events
// and deliveries, and the pure functions that change them.
//
// Nothing here performs I/O, reads a clock, draws a random number or starts a
// goroutine: a caller passes in the time and the entropy, and gets back data.
// So one fold serves the running engine, a restore after a crash and a
// simulation from a seed.
//
//   - Decide functions take a state, a request and the time, and return facts or a
//     [Rejection]. They change nothing.
//   - Evolve functions take a state and a fact and return the next state. They are
//     total: every fact is accepted in every state, because a fact has already happened.
//     [EvolveEndpoint] folds an endpoint together with the delivery that the fact is
//     about, which are one aggregate.
//   - Commands and facts are closed sums, by aggregate: what a kind of command must
//     hold and which delivery a fact is about are methods of each, and a fold names
//     every fact of its aggregate, so that none is forgotten.
//
// Times are Unix milliseconds in int64 fields named …Millis, amounts are
// stroops in int64 fields named …Stroops.
//
// File map:
//
//	id.go         identifiers: prefix and 26 Crockford base32 characters
//	amount.go     stroops and their decimal form
//	payment.go    assets, memos, payments
//	memo.go       memos as users write them
//	ledger.go     closed ledgers, why one cannot be had, and which sources of them agree
//	move.go       changes of a wallet's balances
//	rules.go      amount and memo rules, sender allowlists, the verification of a payment
//	event.go      the envelope that receivers get, byte for byte
//	signature.go  the signature of a delivery and its verification
//	standardwebhooks.go  additional signatures, of Standard Webhooks
//	retry.go      whether and when a delivery is retried, and what disables an endpoint
//	aggregate.go  what aggregates there are, and the fold of an endpoint with its deliveries
//	account.go    accounts
//	quota.go      how much an account has, and may have
//	key.go        API keys of an account
//	portal.go     portal links and their credentials
//	apikey.go     how API keys and signing secrets are made and told from noise
//	endpoint.go   endpoints
//	health.go     the health of an endpoint, in a word
//	secret.go     their signing secrets and how these overlap; text that is not printed
//	delivery.go   one event on its way to one endpoint
//	attempt.go    the result of an attempt, and its consequences
//	attemptlog.go the transparency log of an endpoint's attempts
//	requeue.go    replay and resend
//	notice.go    the mail about a disabled endpoint
//	telling.go   notifications of one endpoint about another
//	testping.go   the test.ping and its answer
//	watch.go      watches, and what they match
//	backfill.go   past ledgers that a watch has covered, and is requested to cover
//	coverage.go   ranges of ledgers: which were read and verified; chains of a network that is reset
//	command.go    commands
//	wellformed.go what no Decide function may be given
//	answer.go     answers to commands
//	fact.go       facts
//	step.go       a fact with the state before and after it
//	tracked.go    a delivery with the effects of its endpoint's facts
package domain
