package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeEndpoint encodes a row of the table "endpoints". It omits the attempt log and the trouble.
func EncodeEndpoint(e domain.Endpoint) Message { return pack("Endpoint", "", endpointOut(e)) }

// DecodeEndpoint decodes a row of the table "endpoints".
func DecodeEndpoint(m Message) (domain.Endpoint, error) {
	return decodeAs(m, "Endpoint", endpointIn)
}

// MarshalEndpoint encodes an endpoint for a task's store.
func MarshalEndpoint(e domain.Endpoint) []byte {
	out := endpointOut(e)
	out.Log, out.Trouble = logOut(e.Log), troubleOut(e.Trouble)
	return pack("Endpoint", "", out).Value
}

// UnmarshalEndpoint decodes an endpoint from a task's store.
func UnmarshalEndpoint(value []byte) (domain.Endpoint, error) {
	return unmarshalAs(value, endpointIn)
}

func endpointOut(e domain.Endpoint) *kafka.Endpoint {
	return &kafka.Endpoint{
		Id:                  e.ID,
		AccountId:           e.AccountID,
		Version:             e.Version,
		Url:                 e.URL,
		Description:         e.Description,
		Secrets:             mapped(e.Secrets, secretOut),
		SigningKey:          e.SigningKey,
		Status:              string(e.Status),
		ConsecutiveFailures: uint32(e.ConsecutiveFailures),
		CreatedAtMillis:     e.CreatedAtMillis,
		UpdatedAtMillis:     e.UpdatedAtMillis,
		DisabledReason:      string(e.DisabledReason),
		DisabledAtMillis:    e.DisabledAtMillis,
		Revision:            e.Revision,
		EnabledVersion:      e.EnabledVersion,
		Epoch:               e.Epoch,
		Headers:             mapped(e.Headers, headerOut),
		RateLimitPerSecond:  uint32(e.RateLimitPerSecond),
		DeletedAtMillis:     e.DeletedAtMillis,
		Sequence:            e.Sequence,
		Signatures:          uint32(e.Signatures),
		Ordering:            string(e.Ordering),
		NoticesTo:           e.NoticesTo,

		SigningKeyRotatedAtMillis: e.SigningKeyRotatedAtMillis,
	}
}

func endpointIn(e *kafka.Endpoint) domain.Endpoint {
	return domain.Endpoint{
		ID:                  e.GetId(),
		AccountID:           e.GetAccountId(),
		Version:             e.GetVersion(),
		EndpointSettings:    endpointSettingsIn(e),
		Secrets:             mapped(e.GetSecrets(), secretIn),
		SigningKey:          e.GetSigningKey(),
		Status:              domain.EndpointStatus(e.GetStatus()),
		ConsecutiveFailures: int(e.GetConsecutiveFailures()),
		CreatedAtMillis:     e.GetCreatedAtMillis(),
		UpdatedAtMillis:     e.GetUpdatedAtMillis(),
		DisabledReason:      domain.DisabledReason(e.GetDisabledReason()),
		DisabledAtMillis:    e.GetDisabledAtMillis(),
		Revision:            e.GetRevision(),
		EnabledVersion:      e.GetEnabledVersion(),
		Epoch:               e.GetEpoch(),
		DeletedAtMillis:     e.GetDeletedAtMillis(),
		Sequence:            e.GetSequence(),
		Log:                 logIn(e.GetLog()),
		Trouble:             troubleIn(e.GetTrouble()),

		SigningKeyRotatedAtMillis: e.GetSigningKeyRotatedAtMillis(),
	}
}

func endpointSettingsIn(m interface {
	GetUrl() string
	GetDescription() string
	GetHeaders() []*kafka.Header
	GetRateLimitPerSecond() uint32
	GetSignatures() uint32
	GetOrdering() string
	GetNoticesTo() string
}) domain.EndpointSettings {
	return domain.EndpointSettings{
		URL:                m.GetUrl(),
		Description:        m.GetDescription(),
		Headers:            mapped(m.GetHeaders(), headerIn),
		RateLimitPerSecond: int(m.GetRateLimitPerSecond()),
		Signatures:         domain.Signatures(m.GetSignatures()),
		Ordering:           domain.Ordering(m.GetOrdering()),
		NoticesTo:          m.GetNoticesTo(),
	}
}

func endpointChangeOut(c domain.EndpointChange) *kafka.EndpointChange {
	out := &kafka.EndpointChange{Url: c.URL, Description: c.Description}
	if c.Headers != nil {
		out.Headers = &kafka.HeaderList{List: mapped(*c.Headers, headerOut)}
	}
	if c.RateLimitPerSecond != nil {
		out.RateLimitPerSecond = pointer(uint32(*c.RateLimitPerSecond))
	}
	if c.Signatures != nil {
		out.Signatures = pointer(uint32(*c.Signatures))
	}
	if c.Ordering != nil {
		out.Ordering = pointer(string(*c.Ordering))
	}
	out.NoticesTo, out.SigningKey = c.NoticesTo, c.SigningKey
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
	if c.Signatures != nil {
		in.Signatures = pointer(domain.Signatures(c.GetSignatures()))
	}
	if c.Ordering != nil {
		in.Ordering = pointer(domain.Ordering(c.GetOrdering()))
	}
	in.NoticesTo, in.SigningKey = c.NoticesTo, c.SigningKey
	return in
}

func troubleOut(t domain.Trouble) *kafka.Trouble {
	if t == (domain.Trouble{}) {
		return nil
	}
	return &kafka.Trouble{SinceMillis: t.SinceMillis, Attempts: uint32(t.Attempts), Told: t.Told}
}

func troubleIn(t *kafka.Trouble) domain.Trouble {
	return domain.Trouble{
		SinceMillis: t.GetSinceMillis(),
		Attempts:    int(t.GetAttempts()),
		Told:        t.GetTold(),
	}
}

func tellingOut(t domain.Telling) *kafka.Telling {
	if t == (domain.Telling{}) {
		return nil
	}
	return &kafka.Telling{EndpointId: t.EndpointID, EventId: t.EventID, Number: t.Number}
}

func tellingIn(t *kafka.Telling) domain.Telling {
	return domain.Telling{
		EndpointID: t.GetEndpointId(),
		EventID:    t.GetEventId(),
		Number:     t.GetNumber(),
	}
}

func secretOut(s domain.SealedSecret) *kafka.SealedSecret {
	return &kafka.SealedSecret{
		Sealed:          s.Sealed,
		CreatedAtMillis: s.CreatedAtMillis,
		ExpiresAtMillis: s.ExpiresAtMillis,
	}
}

func secretIn(s *kafka.SealedSecret) domain.SealedSecret {
	return domain.SealedSecret{
		Sealed:          s.GetSealed(),
		CreatedAtMillis: s.GetCreatedAtMillis(),
		ExpiresAtMillis: s.GetExpiresAtMillis(),
	}
}

func headerOut(
	h domain.Header,
) *kafka.Header {
	return &kafka.Header{Name: h.Name, Sealed: h.Sealed}
}

func headerIn(h *kafka.Header) domain.Header {
	return domain.Header{Name: h.GetName(), Sealed: h.GetSealed()}
}

func resealedOut(r domain.Resealed) *kafka.Resealed {
	return &kafka.Resealed{Was: r.Was, Sealed: r.Sealed}
}

func resealedIn(r *kafka.Resealed) domain.Resealed {
	return domain.Resealed{Was: r.GetWas(), Sealed: r.GetSealed()}
}

func createEndpointOut(meta *kafka.CommandMeta, b domain.CreateEndpoint) *kafka.CreateEndpoint {
	return &kafka.CreateEndpoint{
		Meta:               meta,
		EndpointId:         b.EndpointID,
		AccountId:          b.AccountID,
		Url:                b.URL,
		Description:        b.Description,
		SealedSecret:       b.SealedSecret,
		Headers:            mapped(b.Headers, headerOut),
		RateLimitPerSecond: uint32(b.RateLimitPerSecond),
		Signatures:         uint32(b.Signatures),
		Ordering:           string(b.Ordering),
		NoticesTo:          b.NoticesTo,
	}
}

func endpointCommandOut(meta *kafka.CommandMeta, body domain.EndpointCommand) proto.Message {
	switch b := body.(type) {
	case domain.CreateEndpoint:
		return createEndpointOut(meta, b)
	case domain.UpdateEndpoint:
		return &kafka.UpdateEndpoint{
			Meta:       meta,
			EndpointId: b.EndpointID,
			IfRevision: b.IfRevision,
			Change:     endpointChangeOut(b.Change),
		}
	case domain.DisableEndpoint:
		return &kafka.DisableEndpoint{Meta: meta, EndpointId: b.EndpointID, IfRevision: b.IfRevision}
	case domain.EnableEndpoint:
		return &kafka.EnableEndpoint{Meta: meta, EndpointId: b.EndpointID, IfRevision: b.IfRevision}
	case domain.DeleteEndpoint:
		return &kafka.DeleteEndpoint{Meta: meta, EndpointId: b.EndpointID, IfRevision: b.IfRevision}
	case domain.RotateSecret:
		return &kafka.RotateSecret{
			Meta:         meta,
			EndpointId:   b.EndpointID,
			IfRevision:   b.IfRevision,
			SealedSecret: b.SealedSecret,
		}
	case domain.ResealSecrets:
		return &kafka.ResealSecrets{
			Meta:       meta,
			EndpointId: b.EndpointID,
			Values:     mapped(b.Values, resealedOut),
		}
	case domain.TestEndpoint:
		return testEndpointOut(meta, b)
	case domain.ReplayEndpoint:
		return replayEndpointOut(meta, b)
	case domain.ReplayEvents:
		return replayEventsOut(meta, b)
	case domain.ResendEvent:
		return &kafka.ResendEvent{
			Meta:         meta,
			EndpointId:   b.EndpointID,
			EventId:      b.EventID,
			ToEndpointId: b.ToEndpointID,
			Remembered:   rememberedOut(b.Remembered),
		}
	case domain.RecordMail:
		return recordMailOut(meta, b)
	}
	panic(noForm(body))
}

// emptySpan is the start and end of the empty time range of a replay of chosen events.
const emptySpan = 1

func testEndpointOut(meta *kafka.CommandMeta, b domain.TestEndpoint) proto.Message {
	return &kafka.TestEndpoint{
		Meta:       meta,
		EndpointId: b.EndpointID,
		Sample:     string(b.Sample),
	}
}

func replayEndpointOut(meta *kafka.CommandMeta, b domain.ReplayEndpoint) proto.Message {
	return &kafka.ReplayEndpoint{
		Meta:        meta,
		EndpointId:  b.EndpointID,
		SinceMillis: b.SinceMillis,
		UntilMillis: b.UntilMillis,
	}
}

func replayEventsOut(meta *kafka.CommandMeta, b domain.ReplayEvents) proto.Message {
	return &kafka.ReplayEndpoint{
		Meta:        meta,
		EndpointId:  b.EndpointID,
		SinceMillis: emptySpan,
		UntilMillis: emptySpan,
		Chosen:      true,
		EventIds:    b.EventIDs,
		Matched:     uint32(b.Matched),
	}
}

var endpointCommandForms = map[string]commandForm{
	"CreateEndpoint": command(func(m *kafka.CreateEndpoint) domain.CommandBody {
		return domain.CreateEndpoint{
			EndpointID:       m.GetEndpointId(),
			AccountID:        m.GetAccountId(),
			EndpointSettings: endpointSettingsIn(m),
			SealedSecret:     m.GetSealedSecret(),
		}
	}),
	"UpdateEndpoint": command(func(m *kafka.UpdateEndpoint) domain.CommandBody {
		return domain.UpdateEndpoint{
			EndpointID: m.GetEndpointId(),
			IfRevision: m.GetIfRevision(),
			Change:     endpointChangeIn(m.GetChange()),
		}
	}),
	"DisableEndpoint": command(func(m *kafka.DisableEndpoint) domain.CommandBody {
		return domain.DisableEndpoint{EndpointID: m.GetEndpointId(), IfRevision: m.GetIfRevision()}
	}),
	"EnableEndpoint": command(func(m *kafka.EnableEndpoint) domain.CommandBody {
		return domain.EnableEndpoint{EndpointID: m.GetEndpointId(), IfRevision: m.GetIfRevision()}
	}),
	"DeleteEndpoint": command(func(m *kafka.DeleteEndpoint) domain.CommandBody {
		return domain.DeleteEndpoint{EndpointID: m.GetEndpointId(), IfRevision: m.GetIfRevision()}
	}),
	"RotateSecret": command(func(m *kafka.RotateSecret) domain.CommandBody {
		return domain.RotateSecret{
			EndpointID:   m.GetEndpointId(),
			IfRevision:   m.GetIfRevision(),
			SealedSecret: m.GetSealedSecret(),
		}
	}),
	"ResealSecrets": command(func(m *kafka.ResealSecrets) domain.CommandBody {
		return domain.ResealSecrets{
			EndpointID: m.GetEndpointId(),
			Values:     mapped(m.GetValues(), resealedIn),
		}
	}),
	"TestEndpoint": command(func(m *kafka.TestEndpoint) domain.CommandBody {
		return domain.TestEndpoint{
			EndpointID: m.GetEndpointId(),
			Sample:     domain.EventType(m.GetSample()),
		}
	}),
	"ReplayEndpoint": command(func(m *kafka.ReplayEndpoint) domain.CommandBody {
		if m.GetChosen() {
			return domain.ReplayEvents{
				EndpointID: m.GetEndpointId(),
				EventIDs:   m.GetEventIds(),
				Matched:    int(m.GetMatched()),
			}
		}
		return domain.ReplayEndpoint{
			EndpointID:  m.GetEndpointId(),
			SinceMillis: m.GetSinceMillis(),
			UntilMillis: m.GetUntilMillis(),
		}
	}),
	"ResendEvent": command(func(m *kafka.ResendEvent) domain.CommandBody {
		return domain.ResendEvent{
			EndpointID:   m.GetEndpointId(),
			EventID:      m.GetEventId(),
			ToEndpointID: m.GetToEndpointId(),
			Remembered:   rememberedIn(m.GetRemembered()),
		}
	}),
	"RecordMail": command(recordMailIn),
}

func endpointFactOut(meta *kafka.FactMeta, body domain.EndpointFact) proto.Message {
	switch b := body.(type) {
	case domain.EndpointCreated:
		return &kafka.EndpointCreated{
			Meta:               meta,
			EndpointId:         b.EndpointID,
			AccountId:          b.AccountID,
			Url:                b.URL,
			Description:        b.Description,
			Secret:             secretOut(b.Secret),
			Headers:            mapped(b.Headers, headerOut),
			RateLimitPerSecond: uint32(b.RateLimitPerSecond),
			Signatures:         uint32(b.Signatures),
			Ordering:           string(b.Ordering),
			NoticesTo:          b.NoticesTo,
		}
	case domain.EndpointUpdated:
		return &kafka.EndpointUpdated{Meta: meta, Change: endpointChangeOut(b.Change)}
	case domain.SecretRotated:
		return &kafka.SecretRotated{Meta: meta, Secret: secretOut(b.Secret)}
	case domain.SecretsResealed:
		return &kafka.SecretsResealed{
			Meta:    meta,
			Secrets: mapped(b.Secrets, secretOut),
			Headers: mapped(b.Headers, headerOut),
		}
	case domain.EndpointDisabled:
		return &kafka.EndpointDisabled{
			Meta:               meta,
			Reason:             string(b.Reason),
			EventId:            b.EventID,
			LastStatusCode:     uint32(b.LastStatusCode),
			LastError:          string(b.LastError),
			Telling:            tellingOut(b.Telling),
			FailingSinceMillis: b.FailingSinceMillis,
		}
	case domain.EndpointEnabled:
		return &kafka.EndpointEnabled{Meta: meta}
	case domain.EndpointDeleted:
		return &kafka.EndpointDeleted{Meta: meta}
	}
	panic(noForm(body))
}

var endpointFactForms = map[string]factForm{
	"EndpointCreated":  fact(endpointCreatedIn),
	"EndpointUpdated":  fact(endpointUpdatedIn),
	"SecretRotated":    fact(secretRotatedIn),
	"SecretsResealed":  fact(secretsResealedIn),
	"EndpointDisabled": fact(endpointDisabledIn),
	"EndpointEnabled":  fact(endpointEnabledIn),
	"EndpointDeleted":  fact(endpointDeletedIn),
}

func endpointCreatedIn(m *kafka.EndpointCreated) domain.FactBody {
	return domain.EndpointCreated{
		EndpointID:       m.GetEndpointId(),
		AccountID:        m.GetAccountId(),
		EndpointSettings: endpointSettingsIn(m),
		Secret:           secretIn(m.GetSecret()),
	}
}

func endpointUpdatedIn(m *kafka.EndpointUpdated) domain.FactBody {
	return domain.EndpointUpdated{Change: endpointChangeIn(m.GetChange())}
}

func secretRotatedIn(m *kafka.SecretRotated) domain.FactBody {
	return domain.SecretRotated{Secret: secretIn(m.GetSecret())}
}

func secretsResealedIn(m *kafka.SecretsResealed) domain.FactBody {
	return domain.SecretsResealed{
		Secrets: mapped(m.GetSecrets(), secretIn),
		Headers: mapped(m.GetHeaders(), headerIn),
	}
}

func endpointDisabledIn(m *kafka.EndpointDisabled) domain.FactBody {
	disabled := disabledIn(m)
	disabled.Telling = tellingIn(m.GetTelling())
	return disabled
}

func endpointEnabledIn(*kafka.EndpointEnabled) domain.FactBody { return domain.EndpointEnabled{} }

func endpointDeletedIn(*kafka.EndpointDeleted) domain.FactBody { return domain.EndpointDeleted{} }
