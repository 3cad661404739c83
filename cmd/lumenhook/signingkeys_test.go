package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/ops"
)

// wantStandard verifies a request as Standard Webhooks specifies, with each secret as it was shown,
// and its Ed25519 signature with the published keys of its endpoint. TestLibrariesVerifyWhatIsSent
// runs the libraries themselves.
func (r received) wantStandard(t *testing.T, keySet []byte, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", r.header.Get("Webhook-Id"), r.header.Get("Webhook-Timestamp"),
			r.body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if !slices.Contains(strings.Fields(r.header.Get("Webhook-Signature")), want) {
			t.Errorf("%q does not have %q", r.header.Get("Webhook-Signature"), want)
		}
	}
	if verified := r.verifiedBy(t, keySet); verified != 1 {
		t.Errorf("%d signatures of %q verify by %s", verified, r.header.Get("Webhook-Signature"), keySet)
	}
}

// verifiedBy counts the Ed25519 signatures of a request that verify with a set of keys.
func (r received) verifiedBy(t *testing.T, keySet []byte) (verified int) {
	t.Helper()
	var set struct{ Keys []struct{ X string } }
	if err := json.Unmarshal(keySet, &set); err != nil {
		t.Fatal(err)
	}
	message := []byte(r.header.Get("Webhook-Id") + "." + r.header.Get("Webhook-Timestamp") + "." +
		string(r.body))
	for entry := range strings.SplitSeq(r.header.Get("Webhook-Signature"), " ") {
		text, ok := strings.CutPrefix(entry, "v1a,")
		if !ok {
			continue
		}
		signature, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range set.Keys {
			public, err := base64.RawURLEncoding.DecodeString(k.X)
			if err == nil && ed25519.Verify(public, message, signature) {
				verified++
			}
		}
	}
	return verified
}

// mallory creates another account of the service, which has an endpoint with both signatures and
// watches a wallet that is not hers.
func (s *testService) mallory(url, wallet string) (client.Endpoint, client.Watch) {
	s.t.Helper()
	var account apicli.MadeKey
	s.cli(&account, "accounts", "create", "--email", "mallory@example.com")
	c := s.client(account.Key)
	e, err := c.CreateEndpoint(s.t.Context(), client.EndpointCreate{
		URL: url, Signatures: []string{"standard-webhooks", "standard-webhooks-ed25519"},
	})
	var watch client.Watch
	if err == nil {
		watch, err = c.CreateWatch(s.t.Context(), client.WatchCreate{
			WalletAddress: wallet, EndpointID: e.ID, Assets: []client.Asset{{Code: "XLM"}},
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return e, watch
}

func (s *testService) endpointKeys(id string) []byte {
	s.t.Helper()
	set, err := s.client("").GetEndpointKeys(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *testService) createSigningKey() {
	s.t.Helper()
	if _, err := s.tryCLI("secrets", "signing", "create"); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the key is published", func() bool {
		return strings.Contains(string(s.keySet()), `"Ed25519"`)
	})
}

// TestAWebhookOfAnotherAccountDoesNotVerify plays Mallory, who has an account of the same service.
// She watches the victim's wallet, so one payment gives her a webhook with a valid signature, under
// an event id that the victim has not seen, and she forwards it to the victim. It must verify with
// the keys of her own endpoint, and with none that the victim uses.
func TestAWebhookOfAnotherAccountDoesNotVerify(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms")
	l := startListener(t, s.dir)
	s.createSigningKey()
	var victims client.Endpoint
	s.cli(&victims, "endpoints", "create", "--url", l.url, "--signature", "standard-webhooks-ed25519")
	wallet := s.watchedWalletOf(victims.ID)
	mallorys, watch := s.mallory(l.url, wallet)
	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet, "--amount", "2", "--json")
	s.eventually("the payment arrived at both", func() bool { return len(l.of(paid.ID)) == 2 })
	for _, r := range l.of(paid.ID) {
		own, other := victims.ID, mallorys.ID
		if strings.Contains(string(r.body), watch.ID) {
			own, other = mallorys.ID, victims.ID
		}
		if n := r.verifiedBy(t, s.endpointKeys(own)); n != 1 {
			t.Errorf("%d signatures verify by the keys of its endpoint", n)
		}
		if n := r.verifiedBy(t, s.endpointKeys(other)) + r.verifiedBy(t, s.keySet()); n != 0 {
			t.Errorf("%d signatures verify by the keys of another endpoint, or of the deployment", n)
		}
	}
}

// TestOthersVerifyWhatIsSent creates an endpoint that asks for Standard Webhooks signatures, which
// is rejected until the deployment has a key. What the endpoint receives must verify as Standard
// Webhooks, with the published keys, and as before, both before and after its secret and the master
// key are rotated. The old master key is then no longer needed.
func TestOthersVerifyWhatIsSent(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	l := startListener(t, s.dir)
	asking := []string{
		"endpoints", "create", "--url", l.url, "--signature", "standard-webhooks",
		"--signature", "standard-webhooks-ed25519", "--json",
	}
	if _, err := s.tryCLI(asking...); err == nil ||
		!strings.Contains(err.Error(), "lumenhook secrets signing create") {
		t.Fatalf("without a key: %v", err)
	}
	if out, err := s.tryCLI("secrets", "signing", "create"); err != nil ||
		!strings.Contains(out, "whpk_") {
		t.Fatalf("%s, %v", out, err)
	}
	s.eventually("the key is published", func() bool {
		return strings.Contains(string(s.keySet()), `"Ed25519"`)
	})
	var e client.Endpoint
	s.cli(&e, asking...)
	sent := func() received {
		t.Helper()
		before := len(l.of("test.ping"))
		if _, err := s.tryCLI("endpoints", "test", e.ID); err != nil {
			t.Fatal(err)
		}
		all := l.of("test.ping")
		if len(all) != before+1 {
			t.Fatalf("%d requests arrived, of %d", len(all), before+1)
		}
		return all[before]
	}
	sent().wantStandard(t, s.endpointKeys(e.ID), e.Secret)

	var rotated client.Endpoint
	if status := s.call("POST", "/v1/endpoints/"+e.ID+"/rotate-secret", struct{}{},
		&rotated); status != http.StatusOK {
		t.Fatalf("the rotation was answered %d", status)
	}
	old := s.ring()[0].ID
	if _, err := s.tryCLI("secrets", "rewrap", "--key-only"); err != nil {
		t.Fatal(err)
	}
	report := s.rewrap("--resume", "--json")
	if report.SigningKeysResealed != 1 {
		t.Errorf("the rewrap did %+v", report)
	}
	if _, err := s.tryCLI("secrets", "drop", ops.KeyName(old)); err != nil {
		t.Fatal(err)
	}
	s.interrupt()
	s.start("--no-demo", "--egress-ports", "1024-65535")
	r := sent()
	r.wantStandard(t, s.endpointKeys(e.ID), rotated.Secret, e.Secret)
	r.verify(t, rotated.Secret, e.Secret)

	// Only this endpoint's key rotates. A receiver that has kept the old one can still verify.
	kept := s.endpointKeys(e.ID)
	if _, err := s.tryCLI("endpoints", "rotate-signing-key", e.ID); err != nil {
		t.Fatal(err)
	}
	both := s.endpointKeys(e.ID)
	if n := bytes.Count(both, []byte(`"kid"`)); n != 2 {
		t.Errorf("%d keys are published: %s", n, both)
	}
	during := sent()
	if old, all := during.verifiedBy(t, kept), during.verifiedBy(t, both); old != 1 || all != 2 {
		t.Errorf("%d signatures verify by the former key, and %d by both", old, all)
	}

	if _, err := s.tryCLI("endpoints", "update", e.ID, "--signature", ""); err != nil {
		t.Fatal(err)
	}
	r = sent()
	r.verify(t, rotated.Secret, e.Secret)
	if header := r.header.Get("Webhook-Signature"); !strings.HasPrefix(header, "v1=") {
		t.Errorf("an endpoint that asks for nothing gets %q", header)
	}
}

func (s *testService) keySet() []byte {
	s.t.Helper()
	set, err := s.client("").GetSigningKeys(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return set
}

func TestAMasterKeyThatSigningKeysNeedIsNotDropped(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	if _, err := s.tryCLI("secrets", "signing", "create"); err != nil {
		t.Fatal(err)
	}
	old := s.ring()[0].ID
	if _, err := s.tryCLI("secrets", "rewrap", "--key-only"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.tryCLI("secrets", "drop", ops.KeyName(old)); err == nil ||
		!strings.Contains(err.Error(), "1 values of endpoints, or signing keys") {
		t.Errorf("the key was dropped: %v", err)
	}
	list, err := keys.ReadSigning(keys.SigningKeyPath(keys.MasterKeyPath(s.dir)))
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if by, _ := keys.SealedBy(list[0].Sealed); by != old {
		t.Errorf("the signing key lies under %d", by)
	}
}
