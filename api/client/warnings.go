package client

import (
	"fmt"
	"strings"
)

// warningDetails are the meanings of warnings, by their codes. %s stands for the text after the
// code.
var warningDetails = map[string]string{
	"DNS": "The host name does not resolve yet: nothing can be delivered until it does.",
	"HEADER_DROPPED": "The URL moved to another host or port, so the value of the header %s was " +
		"dropped: set it again.",
	"ACCOUNT_NOT_FOUND": "The wallet's account does not exist yet: it must exist before it can " +
		"receive.",
	"NO_TRUSTLINE":  "The wallet has no trustline for %s yet, and cannot receive it.",
	"LOOKUP_FAILED": "The wallet could not be looked up, so whether it can receive is unknown.",
	"TWIN_WATCH": "The watch %s has the same wallet and endpoint: a payment that both take makes " +
		"two events.",
}

// WarningDetail returns the meaning of a warning, such as NO_TRUSTLINE:USDC; the warning itself if
// this version does not know it.
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

// WarningDetails returns the meanings of warnings, in their order.
func WarningDetails(warnings []string) []string {
	details := make([]string, len(warnings))
	for i, warning := range warnings {
		details[i] = WarningDetail(warning)
	}
	return details
}
