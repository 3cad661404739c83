package schemas_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// TestNoFieldIsForgotten fills every field of every fact, command and row, and checks that it
// survives encoding. Otherwise a field that is missing from the Protobuf message would be lost at
// the next restore.
func TestNoFieldIsForgotten(t *testing.T) {
	for _, body := range goldenFacts {
		if _, nested := body.(domain.CommandHandled); nested {
			continue // contains one of several answers, see TestAnswersComeBack
		}
		f := domain.Fact{Aggregate: "ep_1", Version: 12, AtMillis: 1234, Body: filled(body)}
		if got, err := schemas.DecodeFact(schemas.EncodeFact(f)); err != nil ||
			!reflect.DeepEqual(got, f) {
			t.Errorf("%s\n got %+v, %v\nwant %+v", body.FactType(), got, err, f)
		}
	}
	for _, body := range everyCommand {
		c := domain.Command{
			ID:             "cmd_1",
			AccountID:      "acc_1",
			BodyHash:       []byte{5},
			IssuedAtMillis: 77,
			Body:           filled(body),
		}
		if got, err := schemas.DecodeCommand(schemas.EncodeCommand(c)); err != nil ||
			!reflect.DeepEqual(got, c) {
			t.Errorf("%s\n got %+v, %v\nwant %+v", body.CommandType(), got, err, c)
		}
	}
	comesBack(t, filled(domain.Watch{}),
		func(w domain.Watch) (domain.Watch, error) { return schemas.DecodeWatch(schemas.EncodeWatch(w)) })
	comesBack(t, filled(domain.Endpoint{}), func(e domain.Endpoint) (domain.Endpoint, error) {
		return schemas.UnmarshalEndpoint(schemas.MarshalEndpoint(e))
	})
	order, notice := filled(domain.MailOrder{}), filled(domain.Notice{})
	order.Disabled.Telling, notice.Disabled.Telling = domain.Telling{}, domain.Telling{} // of facts
	comesBack(t, order, func(o domain.MailOrder) (domain.MailOrder, error) {
		return schemas.DecodeMailOrder(schemas.EncodeMailOrder(o))
	})
	comesBack(t, notice, func(n domain.Notice) (domain.Notice, error) {
		return schemas.UnmarshalNotice(schemas.MarshalNotice(n))
	})
	comesBack(t, filled(domain.Account{}), func(a domain.Account) (domain.Account, error) {
		return schemas.DecodeAccount(schemas.EncodeAccount(a))
	})
	comesBack(t, filled(domain.Delivery{}), func(d domain.Delivery) (domain.Delivery, error) {
		return schemas.UnmarshalDelivery(schemas.MarshalDelivery(d))
	})
}

// filled returns a copy of v in which every encoded field is non-zero.
func filled[T any](v T) T {
	into := reflect.New(reflect.TypeOf(v)).Elem()
	n := 0
	fill(into, &n)
	return into.Interface().(T)
}

func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			if !neverEncoded(v.Type(), v.Type().Field(i).Name) {
				fill(v.Field(i), n)
			}
		}
	default:
		panic(fmt.Sprintf("a field of kind %s has no value in this test", v.Kind()))
	}
}

// neverEncoded reports whether a field is not encoded: a field of an attempt's result that only
// the decision uses.
func neverEncoded(of reflect.Type, field string) bool {
	return of == reflect.TypeFor[domain.AttemptResult]() && (field == "RetryAfterMillis" ||
		field == "BodySHA256" || field == "SignatureSHA256")
}
