package domain

// EndpointStatus tells whether an endpoint is sent to.
type EndpointStatus string

// States of an endpoint (specification, "States and transitions", Endpoint).
const (
	EndpointActive   EndpointStatus = "active"
	EndpointDisabled EndpointStatus = "disabled"
)

// SealedSecret is a signing secret as it is kept: encrypted, with the end of
// its validity. The current secret has no end.
type SealedSecret struct {
	Sealed          []byte
	CreatedAtMillis int64
	ExpiresAtMillis int64 // 0: no end
}

// Endpoint is where an account's events go. Its deliveries belong to the same
// aggregate: their facts count its version up.
type Endpoint struct {
	ID                  string
	AccountID           string
	Version             uint64
	URL                 string
	Description         string
	Secrets             []SealedSecret // newest first
	Status              EndpointStatus
	ConsecutiveFailures int // runs that ended FAILED since the last success
	CreatedAtMillis     int64
	UpdatedAtMillis     int64
}

// Exists tells whether the endpoint was created.
func (e Endpoint) Exists() bool { return e.ID != "" }

// ValidSecrets are the secrets that sign at that time, newest first.
func (e Endpoint) ValidSecrets(nowMillis int64) []SealedSecret {
	valid := make([]SealedSecret, 0, len(e.Secrets))
	for _, s := range e.Secrets {
		if s.ExpiresAtMillis == 0 || nowMillis < s.ExpiresAtMillis {
			valid = append(valid, s)
		}
	}
	return valid
}

// DecideCreateEndpoint answers a request to register an endpoint.
func DecideCreateEndpoint(state Endpoint, c CreateEndpoint, nowMillis int64) ([]FactBody, *Rejection) {
	if state.Exists() {
		return nil, &Rejection{Code: CodeAlreadyExists, Detail: "the endpoint exists; its creation was answered before and that answer is forgotten"}
	}
	return []FactBody{EndpointCreated{
		EndpointID: c.EndpointID, AccountID: c.AccountID, URL: c.URL, Description: c.Description,
		Secret: SealedSecret{Sealed: c.SealedSecret, CreatedAtMillis: nowMillis},
	}}, nil
}

// EvolveEndpoint folds one fact into the state of an endpoint.
func EvolveEndpoint(state Endpoint, f Fact) Endpoint {
	switch body := f.Body.(type) {
	case EndpointCreated:
		state.ID, state.AccountID, state.URL, state.Description = body.EndpointID, body.AccountID, body.URL, body.Description
		state.Secrets = []SealedSecret{body.Secret}
		state.Status = EndpointActive
		state.CreatedAtMillis, state.UpdatedAtMillis = f.AtMillis, f.AtMillis
	case AttemptMade:
		state.ConsecutiveFailures = streak(state.ConsecutiveFailures, body)
	}
	state.Version = f.Version
	return state
}

func streak(failures int, a AttemptMade) int {
	switch {
	case a.EventType == TestPing:
		return failures
	case a.State == StateDelivered:
		return 0
	case a.State == StateFailed:
		return failures + 1
	}
	return failures
}
