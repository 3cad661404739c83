package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

func viewAmountRule(r domain.AmountRule) client.AmountRule {
	v := client.AmountRule{Kind: string(r.Kind)}
	switch r.Kind {
	case domain.AmountAny:
	case domain.AmountExact, domain.AmountMin, domain.AmountMax:
		v.Amount = domain.FormatAmount(r.AmountStroops)
	case domain.AmountRange:
		v.Min, v.Max = domain.FormatAmount(r.MinStroops), domain.FormatAmount(r.MaxStroops)
	}
	return v
}

func viewMemoRule(r domain.MemoRule) client.MemoRule {
	if r.Kind != domain.MemoEquals {
		return client.MemoRule{Kind: string(r.Kind)}
	}
	return client.MemoRule{
		Kind:  string(r.Kind),
		Value: r.Value.String(),
		Type:  string(r.Value.Type),
	}
}

// amountTexts and memoTexts return a rule's fields, to merge a patch into them.
func amountTexts(r client.AmountRule) map[string]string {
	return notEmpty(map[string]string{"kind": r.Kind, "amount": r.Amount, "min": r.Min, "max": r.Max})
}

func memoTexts(r client.MemoRule) map[string]string {
	return notEmpty(map[string]string{"kind": r.Kind, "value": r.Value, "type": r.Type})
}

func notEmpty(texts map[string]string) map[string]string {
	maps.DeleteFunc(texts, func(_, text string) bool { return text == "" })
	return texts
}

// kindFields lists the fields of one kind of rule, in addition to kind.
type kindFields struct {
	kind   string
	fields []string
}

var amountKinds = []kindFields{
	{string(domain.AmountAny), nil},
	{string(domain.AmountExact), []string{"amount"}},
	{string(domain.AmountMin), []string{"amount"}},
	{string(domain.AmountMax), []string{"amount"}},
	{string(domain.AmountRange), []string{"min", "max"}},
}

var memoKinds = []kindFields{
	{string(domain.MemoAny), nil},
	{string(domain.MemoPresent), nil},
	{string(domain.MemoAbsent), nil},
	{string(domain.MemoEquals), []string{"value", "type"}},
}

// readKind reads the kind of an optional rule, and checks that the other fields belong to that
// kind. A missing rule has the first kind, "any".
func readKind(rule decode.Value, kinds []kindFields) (kind string, ok bool) {
	if !rule.Given() {
		return kinds[0].kind, false
	}
	names, all := make([]string, len(kinds)), []string{"kind"}
	for i, k := range kinds {
		names[i] = k.kind
		for _, field := range k.fields {
			if !slices.Contains(all, field) {
				all = append(all, field)
			}
		}
	}
	if !rule.Only(all...) {
		return "", false
	}
	kind, ok = rule.Member("kind").RequiredText(maxFormCharacters)
	i := slices.Index(names, kind)
	if !ok || i < 0 {
		if ok {
			rule.Member("kind").Fault(problem.FaultInvalidValue,
				"must be one of "+strings.Join(names, ", "))
		}
		return "", false
	}
	for _, field := range all[1:] {
		if given := rule.Member(field); given.Given() && !slices.Contains(kinds[i].fields, field) {
			given.Fault(problem.FaultNotAllowed,
				fmt.Sprintf("does not belong to a rule of the kind %s: leave it out", kind))
		}
	}
	return kind, true
}

func readAmountRule(rule decode.Value) domain.AmountRule {
	kind, ok := readKind(rule, amountKinds)
	r := domain.AmountRule{Kind: domain.AmountKind(kind)}
	if !ok {
		return r
	}
	switch r.Kind {
	case domain.AmountAny:
	case domain.AmountExact, domain.AmountMin, domain.AmountMax:
		r.AmountStroops, _ = readAmount(rule.Member("amount"))
	case domain.AmountRange:
		var minOK, maxOK bool
		r.MinStroops, minOK = readAmount(rule.Member("min"))
		r.MaxStroops, maxOK = readAmount(rule.Member("max"))
		if minOK && maxOK && r.MinStroops > r.MaxStroops {
			rule.Member("min").Fault(problem.FaultRangeIsEmpty, "must not be greater than max")
		}
	}
	return r
}

func readAmount(v decode.Value) (int64, bool) {
	s, ok := v.RequiredText(maxFormCharacters)
	if !ok {
		return 0, false
	}
	stroops, err := domain.ParseAmount(s)
	if _, fraction, _ := strings.Cut(s, "."); err == nil && len(fraction) > 7 {
		err = domain.ErrAmountPrecision // even trailing zeros: nobody can pay such an amount
	}
	if err == nil && stroops == 0 {
		err = errAmountZero
	}
	if err != nil {
		v.Fault(problem.FaultInvalidAmount, err.Error())
		return 0, false
	}
	return stroops, true
}

var errAmountZero = errors.New("must be greater than 0")

func readMemoRule(rule decode.Value) domain.MemoRule {
	kind, ok := readKind(rule, memoKinds)
	r := domain.MemoRule{Kind: domain.MemoKind(kind)}
	if !ok || r.Kind != domain.MemoEquals {
		return r
	}
	value, valueOK := rule.Member("value").RequiredText(maxFormCharacters)
	memoType, typeOK := rule.Member("type").RequiredText(maxFormCharacters)
	switch t := domain.MemoType(memoType); {
	case !typeOK:
	case t != domain.MemoText && t != domain.MemoID && t != domain.MemoHash:
		rule.Member("type").Fault(problem.FaultInvalidValue, domain.ErrMemoType.Error())
	case !valueOK:
	case holdsSecret(value):
		refuseSecretKey(rule.Member("value"))
	default:
		var err error
		if r.Value, err = domain.ParseMemo(t, value); err != nil {
			rule.Member("value").Fault(problem.FaultInvalidMemo, err.Error())
		}
	}
	return r
}
