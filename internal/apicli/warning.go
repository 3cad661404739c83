package apicli

import "strings"

// warnings are the texts of the API's codes.
var warnings = map[string]string{
	"DNS":               "the host name does not resolve yet; nothing can be delivered until it does",
	"ACCOUNT_NOT_FOUND": "the wallet's account does not exist yet; it must before it can receive",
	"NO_TRUSTLINE":      "the wallet does not trust this asset yet, and cannot receive it",
	"LOOKUP_FAILED":     "the wallet could not be looked up, so whether it can receive is unknown",
}

// warningText returns a warning of the API with what it means. A code may have a value
// behind it, such as NO_TRUSTLINE:USDC.
func warningText(warning string) string {
	code, _, _ := strings.Cut(warning, ":")
	if text, known := warnings[code]; known {
		return warning + ": " + text
	}
	return warning
}
