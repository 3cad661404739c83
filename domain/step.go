package domain

// Step is a fact of an aggregate, with the state before it and after it.
type Step[S any] struct {
	Fact          Fact
	Before, After S
}

// Kept returns the fact as the history of an endpoint or a watch keeps it: without what is
// sealed, of which only the names and times are left. It is false for a fact that is no
// [EndpointFact] and no [WatchFact]. A fold of kept facts is the state without what is sealed,
// and without what deliveries make of an endpoint: its streak, its trouble and its log.
func (f Fact) Kept() (Fact, bool) {
	switch body := f.Body.(type) {
	case EndpointCreated:
		body.Headers, body.Secret = namesOf(body.Headers), body.Secret.unsealed()
		f.Body = body
	case EndpointUpdated:
		if body.Change.Headers != nil {
			names := namesOf(*body.Change.Headers)
			body.Change.Headers = &names
		}
		f.Body = body
	case SecretRotated:
		body.Secret = body.Secret.unsealed()
		f.Body = body
	case SecretsResealed:
		secrets := make([]SealedSecret, len(body.Secrets))
		for i, s := range body.Secrets {
			secrets[i] = s.unsealed()
		}
		f.Body = SecretsResealed{Secrets: secrets, Headers: namesOf(body.Headers)}
	case EndpointFact, WatchFact: // nothing of them is sealed
	default:
		return Fact{}, false
	}
	return f, true
}

func (s SealedSecret) unsealed() SealedSecret {
	s.Sealed = nil
	return s
}

func namesOf(headers []Header) []Header {
	names := make([]Header, len(headers))
	for i, h := range headers {
		names[i].Name = h.Name
	}
	return names
}
