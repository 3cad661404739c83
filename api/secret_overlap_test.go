package api_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func TestAnEndpointSaysUntilWhenItsFormerSecretSigns(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	path := "/v1/endpoints/" + w.newEndpoint(k)
	type endpoint struct{ PreviousSecretUntil string }
	if got := decode[endpoint](t, w.call("GET", path, k, "").body); got.PreviousSecretUntil != "" {
		t.Errorf("before a rotation: %+v", got)
	}
	wantStatus(t, w.call("POST", path+"/rotate-secret", k, ""), 200)
	const tomorrow = "2026-11-22T10:15:30.123Z"
	got := decode[endpoint](t, w.call("GET", path, k, "").body)
	if got.PreviousSecretUntil != tomorrow {
		t.Errorf("after it: %+v, want %s", got, tomorrow)
	}
}
