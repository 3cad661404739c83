package domain_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// story folds facts into an endpoint and its deliveries as the engine does. Only the test moves
// its clock.
type story struct {
	endpoint   domain.Endpoint
	deliveries map[string]domain.Delivery
	notices    map[uint64]domain.Notice // settled notices too
	nowMillis  int64
	policy     domain.Policy
}

const (
	ownAccount = "acc_own"
	endpointID = "ep_1"
	startedAt  = int64(1_700_000_000_000)
)

func newStory() *story {
	s := &story{
		deliveries: make(map[string]domain.Delivery),
		notices:    make(map[uint64]domain.Notice),
		nowMillis:  startedAt,
		policy:     domain.DefaultPolicy(),
	}
	s.given(domain.EndpointCreated{
		EndpointID: endpointID,
		AccountID:  ownAccount,
		EndpointSettings: domain.EndpointSettings{
			URL:         "https://shop.example/hook",
			Description: "shop",
		},
		Secret: domain.SealedSecret{Sealed: []byte("secret 0"), CreatedAtMillis: startedAt},
	})
	return s
}

// given folds facts at the current time of the story.
func (s *story) given(bodies ...domain.FactBody) *story { return s.causedBy("", bodies...) }

func (s *story) causedBy(commandID string, bodies ...domain.FactBody) *story {
	for _, body := range bodies {
		f := domain.Fact{
			Aggregate: endpointID,
			Version:   s.endpoint.Version + 1,
			AtMillis:  s.nowMillis,
			Cause:     commandID,
			Body:      body,
		}
		var delivery domain.Delivery
		id := f.EventID()
		s.endpoint, delivery = domain.EvolveEndpoint(s.endpoint, s.deliveries[id], f)
		if id != "" {
			s.deliveries[id] = delivery
		}
		if version := f.Notice(); version != 0 {
			s.notices[version] = domain.EvolveNotice(s.notices[version], f)
		}
	}
	return s
}

func eventOf(body domain.FactBody) string { return domain.Fact{Body: body}.EventID() }

func (s *story) at(nowMillis int64) *story { s.nowMillis = nowMillis; return s }

func matched(eventID string) domain.DeliveryCreated {
	return domain.DeliveryCreated{
		AccountID:  ownAccount,
		EndpointID: endpointID,
		WatchID:    "wat_1",
		Event:      domain.Event{ID: eventID, Type: domain.PaymentReceived},
	}
}

func (s *story) attempt(eventID string, r domain.AttemptResult) []domain.FactBody {
	facts := s.decideAttempt(eventID, r)
	s.given(facts...)
	return facts
}

func (s *story) decideAttempt(eventID string, r domain.AttemptResult) []domain.FactBody {
	d := s.deliveries[eventID]
	return domain.DecideAttempt(s.endpoint, d, d.Attempts+1, r, s.policy, s.nowMillis)
}

func (s *story) failedRun(eventID string, status int) *story {
	for range s.policy.Schedule.Attempts() {
		s.attempt(eventID, domain.AttemptResult{StatusCode: status})
	}
	return s
}

func (s *story) failedRuns(prefix string, count int) *story {
	for n := range count {
		id := prefix + string(rune('a'+n))
		s.given(matched(id)).failedRun(id, 500)
	}
	return s
}

func (s *story) command(body domain.CommandBody) domain.Command {
	return domain.Command{ID: "cmd_1", AccountID: ownAccount, BodyHash: []byte("hash"), Body: body}
}

// expect compares a decision with the facts, or the code of the rejection, that the test wants.
func expect(
	t *testing.T, facts []domain.FactBody, rejection *domain.Rejection, code string,
	want ...domain.FactBody,
) {
	t.Helper()
	switch {
	case code == "" && rejection != nil:
		t.Errorf("is rejected: %+v", *rejection)
	case code != "" && (rejection == nil || rejection.Code != code || rejection.Detail == ""):
		t.Errorf("rejection %+v, not %s", rejection, code)
	case len(facts) != len(want):
		t.Errorf("%d facts %+v, not %+v", len(facts), facts, want)
	case len(want) > 0 && !reflect.DeepEqual(facts, want):
		t.Errorf("\n got %+v\nwant %+v", facts, want)
	}
}
