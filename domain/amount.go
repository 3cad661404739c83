package domain

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// StroopsPerUnit is the number of stroops in one unit of any asset.
const StroopsPerUnit = 10_000_000

// Errors returned by [ParseAmount].
var (
	ErrAmountSyntax    = errors.New("must be a decimal number such as \"12.5\"")
	ErrAmountPrecision = errors.New("must have at most 7 digits after the point")
	ErrAmountRange     = errors.New("must be at most 922337203685.4775807")
)

// ParseAmount converts a non-negative decimal amount to stroops. It accepts plain decimals only: no
// sign, no exponent, and digits on both sides of a decimal point.
func ParseAmount(s string) (stroops int64, err error) {
	whole, fraction, hasPoint := strings.Cut(s, ".")
	if !allDigits(whole) || hasPoint && !allDigits(fraction) {
		return 0, ErrAmountSyntax
	}
	if len(fraction) > 7 {
		if strings.Trim(fraction[7:], "0") != "" {
			return 0, ErrAmountPrecision
		}
		fraction = fraction[:7]
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || units > math.MaxInt64/StroopsPerUnit {
		return 0, ErrAmountRange
	}
	rest, _ := strconv.ParseInt((fraction + "0000000")[:7], 10, 64)
	if units*StroopsPerUnit > math.MaxInt64-rest {
		return 0, ErrAmountRange
	}
	return units*StroopsPerUnit + rest, nil
}

// FormatAmount formats stroops as a decimal with 7 fractional digits.
func FormatAmount(stroops int64) string {
	sign := ""
	magnitude := uint64(stroops)
	if stroops < 0 {
		sign, magnitude = "-", -magnitude
	}
	fraction := strconv.FormatUint(magnitude%StroopsPerUnit, 10)
	return sign + strconv.FormatUint(magnitude/StroopsPerUnit, 10) + "." +
		strings.Repeat("0", 7-len(fraction)) + fraction
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
