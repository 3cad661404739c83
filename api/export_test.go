package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/gorilla/mux"
)

// Routes lists what the router answers, as "METHOD path", without HEAD.
func (a *API) Routes() []string {
	var routes []string
	_ = a.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := r.GetMethods()
		for _, m := range methods {
			if m != "HEAD" {
				routes = append(routes, m+" "+path)
			}
		}
		return err
	})
	return routes
}

// ProblemCodes lists the codes of problems.
func ProblemCodes() []string { return slices.Sorted(maps.Keys(problemKinds)) }

// FaultCodes lists the codes of faults that this package gives.
func FaultCodes() []string {
	return strings.Fields(strings.Join([]string{
		faultSyntax, faultDuplicateName, faultInvalidUTF8, faultTrailingData, faultTooDeep,
		faultTooManyValues, faultUnknownField, faultRequired,
		faultInvalidType, faultInvalidValue, faultNotAllowed, faultEmpty, faultTooLong, faultTooMany,
		faultDuplicate, faultInvalidAddress,
		faultMuxedAddress, faultContractAddress, faultInvalidAmount, faultInvalidMemo,
		faultEndpointNotFound, faultRangeIsEmpty, faultSecretTextRefused,
		codeSecretKeyRefused, codeSSRFBlocked, faultUnknownParameter, faultOutOfRange, faultInvalidTime,
		faultHeaderRefused, faultInvalidCIDR, faultCannotChange,
	}, " "))
}
