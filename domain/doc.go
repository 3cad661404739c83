// Package domain is the core of Lumenhook: accounts, endpoints, watches, payments, events and
// deliveries, and the pure functions that change them.
//
// The package performs no I/O, reads no clock, uses no random numbers and starts no goroutines.
// Callers pass in the time and the entropy. The running engine, recovery after a crash and the
// simulation can therefore share one fold.
//
//   - Decide functions take a state, a request and the time, and return facts or a [Rejection].
//     They change nothing.
//   - Evolve functions take a state and a fact, and return the next state. They accept every fact
//     in every state, because a fact has already happened. [EvolveEndpoint] folds an endpoint and
//     the delivery that the fact is about, because both belong to one aggregate.
//   - Commands and facts are closed sum types, one per aggregate, so the linter reports a fold that
//     doesn't handle a fact. Each type validates its own fields.
//
// Fields named …Millis hold Unix milliseconds, and fields named …Stroops hold stroops. Both are
// int64.
//
// File map:
//
//	id.go         identifiers: a prefix and 26 Crockford base32 characters
//	amount.go     stroops and decimal amounts
//	payment.go    assets, memos and payments
//	memo.go       parsing of memos
//	ledger.go     closed ledgers, errors, and the states of ledger sources
//	move.go       changes of a wallet's balances
//	rules.go      rules for amounts, memos and senders, and the verification of payments
//	event.go      the event envelope that receivers get
//	signature.go  signing and verifying deliveries
//	standardwebhooks.go  additional signatures of Standard Webhooks
//	retry.go      retry schedule, and when an endpoint is disabled
//	aggregate.go  kinds of aggregate, and the fold of an endpoint with its deliveries
//	account.go    accounts
//	quota.go      quotas of an account
//	key.go        API keys of an account
//	portal.go     portal links and credentials
//	apikey.go     format of API keys and signing secrets
//	endpoint.go   endpoints
//	health.go     health of an endpoint
//	secret.go     rotation of signing secrets; strings that are redacted when printed
//	delivery.go   the delivery of one event to one endpoint
//	attempt.go    the result of an attempt and its consequences
//	attemptlog.go the transparency log of an endpoint's attempts
//	requeue.go    replay and resend
//	notice.go     mail about a disabled endpoint
//	telling.go    notifications of one endpoint about another
//	testping.go   test.ping and its answer
//	watch.go      watches and matching
//	backfill.go   backfills of past ledgers
//	coverage.go   ledger ranges, which ledgers were read and verified, and network resets
//	command.go    commands
//	wellformed.go validation of commands, matches and stored rows
//	answer.go     answers to commands
//	fact.go       facts
//	step.go       a fact with the states before and after it
//	tracked.go    a delivery, including the effects of its endpoint's facts
package domain
