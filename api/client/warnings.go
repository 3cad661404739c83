package client

import (
	"fmt"
	"strings"
)

// warningDetails explains warnings by code. %s is replaced with the text after the code.
var warningDetails = map[string]string{
	"DNS": "The host name does not resolve yet: nothing can be delivered until it does.",
	"HEADER_DROPPED": "The URL moved to another host or port, so the value of the header %s was " +
		"dropped: set it again.",
	"ACCOUNT_NOT_FOUND": "The wallet's account does not exist yet: it must exist before it can " +
		"receive.",
	"NO_TRUSTLINE":  "The wallet has no trustline for %s yet, and cannot receive it.",
	"LOOKUP_FAILED": "The wallet could not be looked up, so whether it can receive is unknown.",
	"TWIN_WATCH": "The watch %s has the same wallet and endpoint: a payment that matches both " +
		"creates two events.",
}

// WarningDetail explains a warning such as NO_TRUSTLINE:USDC. If this version doesn't know the
// warning, it returns the warning itself.
func WarningDetail(warning string) string {
	code, value, _ := strings.Cut(warning, ":")
	switch detail, known := warningDetails[code]; {
	case !known:
		return warning
	case strings.Contains(detail, "%s"):
		return fmt.Sprintf(detail, value)
	default:
		return detail
	}
}

// WarningDetails explains the warnings, in the same order.
func WarningDetails(warnings []string) []string {
	details := make([]string, len(warnings))
	for i, warning := range warnings {
		details[i] = WarningDetail(warning)
	}
	return details
}
