package domain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

// Webhook-Signature contains one signature for each valid secret. The first one here is from a
// published vector (schemas/vectors/signature.json).
func ExampleSignatureHeader() {
	newest := domain.Secret("whsec_0q8x2v5c7n1m9k3j6h4g0f2d5s7a1z3x6c9v2b4n8m0q5w7e")
	before := domain.Secret("whsec_before")
	body := []byte(`{"id":"evt_pmhre52gsh9mg6mm4mppr2r80c","type":"test.ping",` +
		`"apiVersion":"2026-11-01","createdAt":"2026-11-02T12:00:00.123Z",` +
		`"data":{"endpoint":{"id":"ep_bjmqh07gqszfmw2m747570fy7w",` +
		`"url":"https://shop.example/hooks/lumenhook","description":"vector"}}}`)
	header := domain.SignatureHeader([]domain.Secret{newest, before}, 1793620801, body)
	for signature := range strings.SplitSeq(header, ",") {
		fmt.Println(signature)
	}
	// Output:
	// v1=c80045e0917a3056849421f191111e1770decfb3874af2f3a44d56bf6054afcf
	// v1=fd7c3f049f9f182500d657853e8ddf3ffd74f06d93f8daa1c038227b3c25071d
}

// A receiver reads the raw body of each webhook, verifies the signature, compares the id in the
// header with the id in the body, checks whether the event is new, answers 200, and only then
// does the work.
func ExampleVerify() {
	secrets := []domain.Secret{"whsec_0q8x2v5c7n1m9k3j6h4g0f2d5s7a1z3x6c9v2b4n8m0q5w7e"}
	kept := make(map[string][]byte) // a table in your database, with the id as its key

	hook := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		signature := strings.Join(r.Header.Values("Webhook-Signature"), ",")
		timestamp := r.Header.Get("Webhook-Timestamp")
		err = domain.Verify(signature, timestamp, body, secrets, time.Now().Unix())
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		var event struct{ ID string }
		err = json.Unmarshal(body, &event)
		if err != nil || event.ID != r.Header.Get("Webhook-Id") { // the header is not signed
			http.Error(w, "the header has another id than the body", http.StatusBadRequest)
			return
		}
		if _, before := kept[event.ID]; !before { // events may be delivered more than once
			kept[event.ID] = body
		}
		w.WriteHeader(http.StatusOK)
	}

	server := httptest.NewServer(http.HandlerFunc(hook))
	defer server.Close()
	post := func(id, body string) {
		fmt.Println(postSigned(server.URL, secrets, id, `{"id":"evt_1"}`, body), len(kept))
	}
	post("evt_1", `{"id":"evt_1"}`)
	post("evt_1", `{"id":"evt_1"}`)  // repeated because the response was lost
	post("evt_1", `{"id":"evt_1" }`) // modified in transit
	post("evt_2", `{"id":"evt_1"}`)  // recorded, and replayed under another id
	// Output:
	// 200 OK 1
	// 200 OK 1
	// 401 Unauthorized 1
	// 400 Bad Request 1
}

// postSigned signs one body as the service does, but sends another one.
func postSigned(url string, secrets []domain.Secret, id, signed, sent string) string {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(sent))
	if err != nil {
		return err.Error()
	}
	now := time.Now().Unix()
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now, 10))
	request.Header.Set("Webhook-Signature", domain.SignatureHeader(secrets, now, []byte(signed)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	return response.Status
}

// The error tells a wrong clock from a wrong secret.
func ExampleVerify_errors() {
	secrets := []domain.Secret{"whsec_a"}
	body := []byte(`{"id":"evt_1"}`)
	header := domain.SignatureHeader(secrets, 1793620801, body)

	tooLate := domain.Verify(header, "1793620801", body, secrets, 1793620801+301)
	other := domain.Verify(header, "1793620801", body, []domain.Secret{"whsec_b"}, 1793620801)
	fmt.Println(errors.Is(tooLate, domain.ErrTimestampTooFar), tooLate)
	fmt.Println(errors.Is(other, domain.ErrSignatureMismatch), other)
	// Output:
	// true the timestamp is more than 300 seconds from the clock
	// true no signature matches
}

// For 24 hours after a rotation, both secrets sign, so a receiver can switch from one to the
// other at any time. A running service seals its secrets, but this example does not.
func ExampleEndpoint_ValidSecrets() {
	const dayMillis = 24 * 3_600_000
	created := domain.EndpointCreated{
		EndpointID: "ep_1",
		AccountID:  "acct_1",
		Secret:     domain.SealedSecret{Sealed: []byte("whsec_first")},
	}
	endpoint, _ := domain.EvolveEndpoint(domain.Endpoint{}, domain.Delivery{},
		domain.Fact{Version: 1, Body: created})

	rotate := domain.Command{
		ID:        "cmd_1",
		AccountID: "acct_1",
		Body:      domain.RotateSecret{EndpointID: "ep_1", SealedSecret: []byte("whsec_second")},
	}
	facts, rejection := domain.DecideEndpoint(endpoint, rotate, dayMillis)
	if rejection != nil {
		fmt.Println(rejection)
		return
	}
	rotated := domain.Fact{Version: 2, AtMillis: dayMillis, Body: facts[0]}
	endpoint, _ = domain.EvolveEndpoint(endpoint, domain.Delivery{}, rotated)

	body := []byte(`{"id":"evt_1"}`)
	for _, atMillis := range []int64{2*dayMillis - 1000, 2 * dayMillis} {
		var secrets []domain.Secret
		for _, s := range endpoint.ValidSecrets(atMillis) {
			secrets = append(secrets, domain.Secret(s.Sealed))
		}
		atSeconds := atMillis / 1000
		header := domain.SignatureHeader(secrets, atSeconds, body)
		for _, held := range []domain.Secret{"whsec_first", "whsec_second"} {
			timestamp := strconv.FormatInt(atSeconds, 10)
			err := domain.Verify(header, timestamp, body, []domain.Secret{held}, atSeconds)
			fmt.Printf("%d signatures, a receiver that holds %s: %v\n",
				len(secrets), string(held), err)
		}
	}
	// Output:
	// 2 signatures, a receiver that holds whsec_first: <nil>
	// 2 signatures, a receiver that holds whsec_second: <nil>
	// 1 signatures, a receiver that holds whsec_first: no signature matches
	// 1 signatures, a receiver that holds whsec_second: <nil>
}
