package domain_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// Folding the kept facts yields the endpoint without its sealed values.
func TestKeptFactsFoldToTheSameEndpoint(t *testing.T) {
	secret := domain.SealedSecret{Sealed: []byte("sealed"), CreatedAtMillis: 5}
	headers := []domain.Header{{Name: "Authorization", Sealed: []byte("sealed")}}
	var whole, kept domain.Endpoint
	for i, body := range []domain.FactBody{
		domain.EndpointCreated{
			EndpointID:       "ep_1",
			AccountID:        "acc_1",
			EndpointSettings: domain.EndpointSettings{URL: "https://a.example", Headers: headers},
			Secret:           secret,
		},
		domain.EndpointUpdated{Change: domain.EndpointChange{Headers: &headers}},
		domain.SecretRotated{Secret: secret},
		domain.SecretsResealed{Secrets: []domain.SealedSecret{secret, secret}, Headers: headers},
		domain.EndpointDisabled{Reason: domain.DisabledManual},
		domain.EndpointEnabled{},
	} {
		f := domain.Fact{Aggregate: "ep_1", Version: uint64(i + 1), AtMillis: int64(i), Body: body}
		own, is := f.Kept()
		if !is {
			t.Fatalf("%s is not kept", body.FactType())
		}
		whole, _ = domain.EvolveEndpoint(whole, domain.Delivery{}, f)
		kept, _ = domain.EvolveEndpoint(kept, domain.Delivery{}, own)
		want := whole
		want.Headers, want.Secrets = nil, nil
		for _, h := range whole.Headers {
			want.Headers = append(want.Headers, domain.Header{Name: h.Name})
		}
		for _, s := range whole.Secrets {
			s.Sealed = nil
			want.Secrets = append(want.Secrets, s)
		}
		if !reflect.DeepEqual(kept, want) {
			t.Errorf("after %s it is %+v, want %+v", body.FactType(), kept, want)
		}
		if secret.Sealed == nil || headers[0].Sealed == nil {
			t.Fatal("what was given has changed")
		}
	}
	for _, body := range []domain.FactBody{domain.DeliveryCreated{}, domain.AttemptMade{},
		domain.KeyCreated{}, domain.CommandHandled{}, domain.MailOrdered{}} {
		if _, is := (domain.Fact{Body: body}).Kept(); is {
			t.Errorf("%s is kept", body.FactType())
		}
	}
}
