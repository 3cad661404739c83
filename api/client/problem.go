package client

import (
	"fmt"
	"strings"
)

// Problem is a refusal (RFC 9457).
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	CommandID string  `json:"commandId,omitempty"`
	Errors    []Fault `json:"errors,omitempty"`
}

// Fault is one thing wrong with a body or a query.
type Fault struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter,omitempty"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// Error names every fault; Detail has the text of the only one.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, request %s)", p.Detail, p.Code, p.RequestID)
	if len(p.Errors) == 1 {
		return b.String()
	}
	for _, f := range p.Errors {
		where := f.Pointer
		if f.Parameter != "" {
			where = f.Parameter
		}
		fmt.Fprintf(&b, "\n  %s: %s (%s)", where, f.Detail, f.Code)
	}
	return b.String()
}
