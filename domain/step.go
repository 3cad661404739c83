package domain

// Step is a fact with the state of its aggregate before and after it.
type Step[S any] struct {
	Fact          Fact
	Before, After S
}

// Kept returns the fact as the history of an endpoint or a watch stores it: without encrypted
// values, but with their names and times. It returns false if the fact is not an [EndpointFact] or
// a [WatchFact]. Folding kept facts produces the state without encrypted values and without what
// deliveries contribute to an endpoint: its streak, trouble and log.
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
	case EndpointFact, WatchFact: // nothing in them is encrypted
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
