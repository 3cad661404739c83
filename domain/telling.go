package domain

import "cmp"

// An endpoint can name another endpoint of its account, which is notified when this one is failing,
// and when it is disabled (docs/decisions/notices.md).

// Types of events that notify one endpoint about another.
const (
	EndpointFailingEvent  EventType = "endpoint.failing"
	EndpointDisabledEvent EventType = "endpoint.disabled"
)

// TellsOfEndpoint reports whether events of this type notify one endpoint about another. Such
// events belong to no watch and no payment.
func (t EventType) TellsOfEndpoint() bool {
	return t == EndpointFailingEvent || t == EndpointDisabledEvent
}

// An endpoint counts as failing an hour after its first failed attempt if at least five attempts
// failed and none succeeded, or when half of the runs that would disable it have failed. This is
// long before 20 runs of two days each have failed.
const (
	failingAfterMillis = 3_600_000
	failingAttempts    = 5
)

// Trouble counts an endpoint's failures since its last success, or since it was enabled. Tests and
// failures while it is disabled don't count.
type Trouble struct {
	SinceMillis int64 // time of the first failed attempt; 0 if there is none
	Attempts    int   // failed attempts
	Told        bool  // the other endpoint was notified
}

// Telling notifies another endpoint about a fact.
type Telling struct {
	EndpointID string // empty if no endpoint is notified
	EventID    string
	Number     uint64 // see [Moved.Number]
}

// after returns the trouble after an attempt, or zero if the attempt doesn't count.
func (t Trouble) after(e Endpoint, a AttemptMade, atMillis int64) Trouble {
	if a.EventType == TestPing || !e.Sends() || a.Result.Succeeded() {
		return Trouble{}
	}
	t.SinceMillis = cmp.Or(t.SinceMillis, atMillis)
	t.Attempts++
	return t
}

// folded returns the endpoint's trouble after the fact of an attempt.
func (t Trouble) folded(a AttemptMade) Trouble {
	switch {
	case a.EventType == TestPing:
	case a.State == StateDelivered:
		return Trouble{}
	case a.Trouble.SinceMillis != 0:
		return a.Trouble
	}
	return t
}

// fails reports whether the endpoint counts as failing from this attempt on, once per streak.
func (p Policy) fails(e Endpoint, made AttemptMade, nowMillis int64) bool {
	if made.Trouble.SinceMillis == 0 || made.Trouble.Told {
		return false
	}
	long := made.Trouble.Attempts >= failingAttempts &&
		nowMillis-made.Trouble.SinceMillis >= failingAfterMillis
	half := made.State == StateFailed && p.DisableAfter > 1 && streak(e, made) >= p.DisableAfter/2
	return long || half
}

// notify returns the notification. The event's ID is derived from the endpoint, the type and the
// occurrence, so repeating it produces the same event.
func (e Endpoint) notify(what EventType, which string) Telling {
	if e.NoticesTo == "" {
		return Telling{}
	}
	return Telling{
		EndpointID: e.NoticesTo,
		EventID:    DeriveID(EventPrefix, string(what), e.ID, which),
	}
}

// Telling returns the notification of another endpoint about the fact, if there is one.
func (f Fact) Telling() Telling {
	switch body := f.Body.(type) {
	case AttemptMade:
		return body.Telling
	case EndpointDisabled:
		return body.Telling
	default:
	}
	return Telling{}
}

// Numbered returns the body of a fact with the number of its notification or handover set.
func Numbered(body FactBody, number uint64) FactBody {
	switch b := body.(type) {
	case AttemptMade:
		if b.Telling.EndpointID != "" {
			b.Telling.Number = number
			return b
		}
	case EndpointDisabled:
		if b.Telling.EndpointID != "" {
			b.Telling.Number = number
			return b
		}
	case DeliveryMoved:
		b.Number = number
		return b
	default: // no effect in other partitions
	}
	return body
}

// Told returns the match that notifies another endpoint about the fact, or false if there is none.
// e is the endpoint that the fact is about.
func (f Fact) Told(e Endpoint, fromPartition int32) (MatchInput, bool) {
	telling := f.Telling()
	if telling.EndpointID == "" {
		return MatchInput{}, false
	}
	return MatchInput{
		AccountID:  e.AccountID,
		EndpointID: telling.EndpointID,
		Event:      f.event(e, telling.EventID),
		Moved:      Moved{FromPartition: fromPartition, Number: telling.Number},
	}, true
}

func (f Fact) event(e Endpoint, id string) Event {
	about := endpointSummary{ID: e.ID, URL: e.URL, Description: e.Description}
	event := Event{ID: id, CreatedAtMillis: f.AtMillis}
	var data any
	if body, is := f.Body.(AttemptMade); is {
		event.Type = EndpointFailingEvent
		data = failingData{
			Endpoint:       about,
			FailingSince:   FormatMillis(body.Trouble.SinceMillis),
			FailedAttempts: body.Trouble.Attempts,
			LastAttempt:    viewLastAttempt(body.EventID, body.Result.StatusCode, body.Result.Error),
		}
	}
	if body, is := f.Body.(EndpointDisabled); is {
		event.Type = EndpointDisabledEvent
		data = disabledData{
			Endpoint:    about,
			Reason:      body.Reason,
			DisabledAt:  FormatMillis(f.AtMillis),
			LastAttempt: viewLastAttempt(body.EventID, body.LastStatusCode, body.LastError),
		}
	}
	event.Body = encode(envelope{
		ID:         id,
		Type:       event.Type,
		APIVersion: APIVersion,
		CreatedAt:  FormatMillis(f.AtMillis),
		Data:       data,
	})
	return event
}

type failingData struct {
	Endpoint       endpointSummary `json:"endpoint"`
	FailingSince   string          `json:"failingSince"`
	FailedAttempts int             `json:"failedAttempts"`
	LastAttempt    lastAttempt     `json:"lastAttempt"`
}

type disabledData struct {
	Endpoint    endpointSummary `json:"endpoint"`
	Reason      DisabledReason  `json:"reason"`
	DisabledAt  string          `json:"disabledAt"`
	LastAttempt lastAttempt     `json:"lastAttempt"`
}

type lastAttempt struct {
	EventID    string        `json:"eventId"`
	StatusCode *int          `json:"statusCode"`
	Error      *AttemptError `json:"error"`
}

func viewLastAttempt(eventID string, statusCode int, err AttemptError) lastAttempt {
	view := lastAttempt{EventID: eventID}
	if statusCode != 0 {
		view.StatusCode = &statusCode
	}
	if err != "" {
		view.Error = &err
	}
	return view
}
