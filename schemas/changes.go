package schemas

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

func endpointChangeOut(c domain.EndpointChange) *kafka.EndpointChange {
	out := &kafka.EndpointChange{Url: c.URL, Description: c.Description}
	if c.Headers != nil {
		out.Headers = &kafka.HeaderList{List: mapped(*c.Headers, headerOut)}
	}
	if c.RateLimitPerSecond != nil {
		out.RateLimitPerSecond = pointer(uint32(*c.RateLimitPerSecond))
	}
	return out
}

func endpointChangeIn(c *kafka.EndpointChange) domain.EndpointChange {
	var in domain.EndpointChange
	if c == nil {
		return in
	}
	in.URL, in.Description = c.Url, c.Description
	if c.Headers != nil {
		in.Headers = pointer(mapped(c.GetHeaders().GetList(), headerIn))
	}
	if c.RateLimitPerSecond != nil {
		in.RateLimitPerSecond = pointer(int(c.GetRateLimitPerSecond()))
	}
	return in
}

func watchChangeOut(c domain.WatchChange) *kafka.WatchChange {
	out := &kafka.WatchChange{Label: c.Label, EndpointId: c.EndpointID}
	if c.Assets != nil {
		out.Assets = &kafka.AssetList{List: mapped(*c.Assets, assetOut)}
	}
	if c.Amount != nil {
		out.AmountRule = amountRuleOut(*c.Amount)
	}
	if c.Memo != nil {
		out.MemoRule = memoRuleOut(*c.Memo)
	}
	if c.SenderAllowlist != nil {
		out.SenderAllowlist = &kafka.StringList{List: *c.SenderAllowlist}
	}
	if c.EventTypes != nil {
		out.EventTypes = &kafka.StringList{List: strings[string](*c.EventTypes)}
	}
	return out
}

func watchChangeIn(c *kafka.WatchChange) domain.WatchChange {
	var in domain.WatchChange
	if c == nil {
		return in
	}
	in.Label, in.EndpointID = c.Label, c.EndpointId
	if c.Assets != nil {
		in.Assets = pointer(mapped(c.GetAssets().GetList(), assetIn))
	}
	if c.AmountRule != nil {
		in.Amount = pointer(amountRuleIn(c.GetAmountRule()))
	}
	if c.MemoRule != nil {
		in.Memo = pointer(memoRuleIn(c.GetMemoRule()))
	}
	if c.SenderAllowlist != nil {
		in.SenderAllowlist = pointer(c.GetSenderAllowlist().GetList())
	}
	if c.EventTypes != nil {
		in.EventTypes = pointer(strings[domain.EventType](c.GetEventTypes().GetList()))
	}
	return in
}
