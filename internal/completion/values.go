package completion

import (
	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// flagValues are the values of flags, by the flag's name, or by the command's and the flag's
// where flags of one name differ.
var flagValues = map[string][]cobra.Completion{
	"state": {
		described(domain.StateQueued, "its first attempt is due"),
		described(domain.StateWaiting, "an attempt failed, and another is due"),
		described(domain.StateDelivered, "the receiver has taken it"),
		described(domain.StateFailed, "no attempt is left; it can be replayed"),
		described(domain.StateCancelled, "its endpoint was deleted"),
	},
	"status":     {"active", described("disabled", "nothing is sent, and events wait")},
	"type":       eventTypes,
	"events":     eventTypes,
	"event-type": eventTypes[:2],
	"endpoints test type": {
		eventTypes[2], described("payment.received", "a sample, of nothing to nobody's wallet"),
	},
	"topics cat type":  nil, // names of facts, which topics differ in
	"topics tail type": nil,
	"permissions": {
		described(domain.PermissionRead, "look at everything"),
		described(domain.PermissionWrite, "create, change, delete, rotate"),
		described(domain.PermissionOperate, "test, enable, disable, replay, resend"),
	},
	"network": {
		described("pubnet", "Stellar's public network"),
		described("testnet", "Stellar's test network"),
	},
	"ledger-source": {
		described("rpc", "a Stellar RPC server"),
		described("lake", "exported ledgers"),
	},
	"asset":                {described("XLM", "lumens; others are CODE:ISSUER")},
	"devnet account asset": nil, // that of lumens every wallet trusts
	"devnet pay asset":     nil,
	"amount": {
		"any", described("exact:", "this amount"), described("min:", "this amount or more"),
		described("max:", "this amount or less"), described("range:", "from one to another"),
	},
	"devnet pay amount":   nil,
	"devnet asset amount": nil,
	"memo": {
		"any", "present", "absent", described("text:", "this text"), described("id:", "this number"),
		described("hash:", "64 hex digits"),
	},
	"events list memo":      nil, // a memo itself
	"events resend memo":    nil,
	"endpoints replay memo": nil,
	"fail": {
		described("503", "something before the receiver answers so"),
		described("timeout", "its answer is not heard"),
		described("reset", "the connection breaks off"),
	},
	"signature":        domain.SignatureNames(),
	"verify signature": nil,
	"ordering":         {described("wallet", "events of a wallet one after another")},
	"format":           {"table", "json", "csv"},
	"log-level":        {"debug", "info", "warn", "error"},
	"kafka-sasl":       {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"},
	"smtp-tls":         {"starttls", "opportunistic", "implicit", "none"},
	"start":            {"latest"},
	"role":             topology.RoleNames(),
	"roles":            roles(),
	"accept-loss":      topology.Names(),
	"table":            projections.Tables(),
	"topics cat from":  {"start", "end"},
	"topics tail from": {"start", "end"},
	"since":            spans,
	"until":            spans,
}

var eventTypes = []cobra.Completion{
	described("payment.received", "a watch has taken a payment"),
	described("payment.rejected", "a watch has not taken one, and why"),
	described("test.ping", "a test of an endpoint"),
	described(domain.EndpointFailingEvent, "another endpoint takes nothing"),
	described(domain.EndpointDisabledEvent, "another endpoint was disabled"),
}

var spans = []cobra.Completion{"1h", "24h", "168h"}

func described[T ~string](value T, what string) cobra.Completion {
	return cobra.CompletionWithDesc(string(value), what)
}

func roles() (names []cobra.Completion) {
	for _, role := range node.Roles() {
		names = append(names, string(role))
	}
	return names
}

func topicNames() (names []cobra.Completion) {
	for _, topic := range schemas.Topics() {
		names = append(names, topic.Name)
	}
	return names
}
