package api_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// logAttempts adds the attempts of an event to the logs of their endpoints.
func (w *world) logAttempts(eventID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.history[eventID]
	endpoints := make(map[string]domain.Endpoint)
	delivery := domain.Delivery{EventID: eventID, Version: 1, Run: 1}
	w.logs = make(map[string]map[uint64][]byte)
	for i, a := range of.record.Attempts {
		endpoint, known := endpoints[a.EndpointID]
		if !known {
			endpoint = domain.Endpoint{ID: a.EndpointID, Version: 4, Status: domain.StatusActive}
			w.logs[endpoint.ID] = make(map[uint64][]byte)
		}
		delivery.State, delivery.EndpointID = domain.StateQueued, endpoint.ID
		body, signature := sha256.Sum256(of.record.Body), sha256.Sum256([]byte("v1=…"))
		a.Result.BodySHA256, a.Result.SignatureSHA256 = body[:], signature[:]
		made := domain.DecideAttempt(endpoint, delivery, a.Number, a.Result, domain.Policy{},
			0)[0].(domain.AttemptMade)
		endpoint, delivery = domain.EvolveEndpoint(endpoint, delivery,
			domain.Fact{Aggregate: endpoint.ID, Version: endpoint.Version + 1, Body: made})
		endpoints[endpoint.ID] = endpoint
		w.logs[endpoint.ID][made.Entry.Number] = made.Entry.Hashes
		made.Entry.Hashes = nil
		of.record.Attempts[i].Entry = made.Entry
	}
}

// newSigningKeys returns a single key, which is published and signs.
func newSigningKeys(t testing.TB) *signingKeys {
	t.Helper()
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := private.Public().(ed25519.PublicKey)
	return &signingKeys{
		signs:   true,
		public:  []api.PublicKey{{ID: domain.SigningKeyID(public), Key: public}},
		private: []domain.Secret{domain.Secret(private)},
	}
}

func TestReceipts(t *testing.T) {
	keys := newSigningKeys(t)
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	k := w.newKey(account("a"), domain.PermissionRead, domain.PermissionWrite)
	failed := domain.AttemptResult{SentAtMillis: 7, StatusCode: 500, ResponseBody: []byte("no")}
	event := w.delivered(account("a"), w.newEndpoint(k), domain.StateDelivered, failed, failed,
		domain.AttemptResult{SentAtMillis: 9, StatusCode: 200})
	path := "/v1/events/" + event.ID + "/receipt"

	wantProblem(t, w.call("GET", path, k, ""), 404, "NO_RECEIPT")
	w.logAttempts(event.ID)

	published, err := receipt.ParseKeys(w.call("GET", "/.well-known/jwks.json", "", "").body)
	if err != nil {
		t.Fatal(err)
	}
	got := w.call("GET", path+"?earlierSize=2", k, "")
	proved, err := receipt.Verify(got.body, published)
	if err != nil || len(proved.Logs) != 1 || len(proved.Logs[0].Attempts) != 3 {
		t.Fatalf("%s: %+v, %v", got.body, proved, err)
	}
	log := proved.Logs[0]
	if log.Log.AccountID != account("a") || log.Log.From != 5 || log.Size != 3 ||
		log.Earlier.Size != 2 || log.Attempts[0].StatusCode != 500 || log.Attempts[2].StatusCode != 200 {
		t.Errorf("it proves %+v", log)
	}
	one := w.call("GET", path+"?attempt=2", k, "")
	proved, err = receipt.Verify(one.body, published)
	if err != nil || len(proved.Logs[0].Attempts) != 1 || proved.Logs[0].Attempts[0].Leaf != 1 {
		t.Errorf("%s: %v", one.body, err)
	}
	wantProblem(t, w.call("GET", path+"?attempt=4", k, ""), 404, "NO_RECEIPT")

	// An event that was handed over and came back has each log once.
	w.history[event.ID].record.Attempts[1].EndpointID = w.newEndpoint(k)
	w.logAttempts(event.ID)
	back := w.call("GET", path, k, "")
	proved, err = receipt.Verify(back.body, published)
	if err != nil || len(proved.Logs) != 2 || len(proved.Logs[0].Attempts) != 2 {
		t.Errorf("%s: %v", back.body, err)
	}
	wantProblem(t, w.call("GET", path+"?attempt=x", k, ""), 400, "INVALID_PARAMETER")
	theirs := w.newKey(account("b"), domain.PermissionRead)
	wantProblem(t, w.call("GET", path, theirs, ""), 404, "NOT_FOUND")
	wantProblem(t, w.call("GET", path, w.newKey(account("a"), domain.PermissionWrite), ""), 403,
		"MISSING_PERMISSION")
}

// There must be no receipt if the history is behind, lacks hashes, or has rows that differ from
// what was logged.
func TestNoReceiptOfWhatIsNotWhole(t *testing.T) {
	keys := newSigningKeys(t)
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	k := w.newKey(account("a"), domain.PermissionRead, domain.PermissionWrite)
	event := w.delivered(account("a"), w.newEndpoint(k), domain.StateDelivered,
		domain.AttemptResult{SentAtMillis: 7, StatusCode: 500}, domain.AttemptResult{StatusCode: 200})
	w.logAttempts(event.ID)
	path := "/v1/events/" + event.ID + "/receipt"

	w.historyErr = readmodel.ErrUnavailable
	wantProblem(t, w.call("GET", path, k, ""), 503, "HISTORY_UNAVAILABLE")
	w.historyErr = nil
	of := w.history[event.ID]
	of.record.Behind = true
	w.history[event.ID] = of
	wantProblem(t, w.call("GET", path, k, ""), 503, "HISTORY_BEHIND")
	of.record.Behind = false
	of.record.Attempts[0].Result.StatusCode = 200
	w.history[event.ID] = of
	wantProblem(t, w.call("GET", path, k, ""), 500, "INTERNAL")
	of.record.Attempts[0].Result.StatusCode = 500
	delete(w.logs[of.record.EndpointID], 1)
	wantProblem(t, w.call("GET", path, k, ""), 503, "HISTORY_BEHIND")
}

func TestAReceiptNeedsASigningKey(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	event := w.delivered(account("a"), w.newEndpoint(k), domain.StateDelivered,
		domain.AttemptResult{StatusCode: 200})
	wantProblem(t, w.call("GET", "/v1/events/"+event.ID+"/receipt", k, ""), 501, "NO_SIGNING_KEY")
}
