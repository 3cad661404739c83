package client

import "cmp"

var reasonDetails = map[string]string{
	"ASSET_NOT_ACCEPTED": "The watch doesn't accept this asset.",
	"AMOUNT_MISMATCH":    "The amount differs from the watch's.",
	"AMOUNT_TOO_LOW":     "The amount is below the watch's minimum.",
	"AMOUNT_TOO_HIGH":    "The amount is above the watch's maximum.",
	"MEMO_REQUIRED":      "The payment has no memo, but the watch requires one.",
	"MEMO_NOT_ALLOWED":   "The payment has a memo, but the watch doesn't allow one.",
	"MEMO_TYPE_MISMATCH": "The memo's type differs from the watch's.",
	"MEMO_MISMATCH":      "The memo differs from the watch's.",
	"SENDER_NOT_ALLOWED": "The sender isn't on the watch's list of allowed senders.",

	"NOT_REPORTED":  "The watch doesn't report this type of event.",
	"EXPIRED":       "The watch expired before this payment.",
	"FULFILLED":     "The watch is for one payment, and has already matched another one.",
	"WATCHED_LATER": "The ledger closed before the watch was created. Backfill the watch.",
	"RULES_CHANGED": "The watch has changed since this payment and accepts it now. Backfill it.",
	"PENDING":       "The event isn't in the history yet. Try again in a few seconds.",
	"ENDPOINT_DELETED": "The watch's endpoint was deleted. Assign another endpoint to have the " +
		"payment delivered.",
	"LEDGER_NOT_READ": "The service hasn't read this ledger yet.",
}

// ReasonDetail explains why a watch rejected or didn't report a payment. If this version doesn't
// know the reason, it returns the reason itself.
func ReasonDetail(reason string) string { return cmp.Or(reasonDetails[reason], reason) }

// ReasonDetails explains the reasons, in the same order.
func ReasonDetails(reasons []string) []string {
	details := make([]string, len(reasons))
	for i, reason := range reasons {
		details[i] = ReasonDetail(reason)
	}
	return details
}
