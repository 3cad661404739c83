package domain_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// standardVector is the vector that all Standard Webhooks libraries are tested with.
var standardVector = domain.Attempt{
	EventID:    "msg_p5jXN8AQM9LWM0D4loKWxJek",
	Body:       []byte(`{"test": 2432232314}`),
	Secrets:    []domain.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	Signatures: domain.StandardWebhooks,
}

func TestTheVectorOfStandardWebhooks(t *testing.T) {
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	header := standardVector.SignatureHeader(1614265330)
	if first, _, _ := strings.Cut(header, " "); first != want {
		t.Errorf("signed %q, want %q", header, want)
	}
}

// Whichever signatures an endpoint has, receivers that follow our specification find the
// signatures of all secrets, and no entry confuses a Standard Webhooks library, which expects a
// version and a signature with one comma in between.
func TestOneHeaderServesBothKindsOfReceivers(t *testing.T) {
	var seed [ed25519.SeedSize]byte
	newer := ed25519.NewKeyFromSeed(seed[:])
	seed[0] = 1
	older := ed25519.NewKeyFromSeed(seed[:])
	a := domain.Attempt{
		EventID:     "evt_1",
		Body:        []byte("{}"),
		Secrets:     []domain.Secret{domain.NewSecret([32]byte{1}), domain.NewSecret([32]byte{2})},
		SigningKeys: []domain.Secret{domain.Secret(newer), domain.Secret(older)},
	}
	plain := a.SignatureHeader(1793620801)
	if plain != domain.SignatureHeader(a.Secrets, 1793620801, a.Body) {
		t.Errorf("without a wish the header is %q", plain)
	}
	for asked, versions := range map[domain.Signatures][]string{
		domain.StandardWebhooks:        {"v1", "v1", "", ""},
		domain.StandardWebhooksEd25519: {"v1a", "v1a", "", ""},
		domain.StandardWebhooks | domain.StandardWebhooksEd25519: {
			"v1", "v1", "v1a", "v1a", "", "",
		},
	} {
		a.Signatures = asked
		header := a.SignatureHeader(1793620801)
		for _, secret := range a.Secrets {
			if err := domain.Verify(header, "1793620801", a.Body, []domain.Secret{secret},
				1793620801); err != nil {
				t.Errorf("%v: a secret did not sign %q: %v", asked.Names(), header, err)
			}
		}
		var got []string
		for entry := range strings.SplitSeq(header, " ") {
			version, signature, _ := strings.Cut(entry, ",")
			if got = append(got, version); strings.Contains(signature, ",") {
				t.Errorf("%v: entry %q", asked.Names(), entry)
			}
		}
		if !slices.Equal(got, versions) {
			t.Errorf("%v: versions %q of %q", asked.Names(), got, header)
		}
		if asked.Has(domain.StandardWebhooksEd25519) {
			verifyEd25519(t, header, newer, older)
		}
	}
}

// verifyEd25519 checks that the v1a entries are signatures by the keys, in order.
func verifyEd25519(t *testing.T, header string, keys ...ed25519.PrivateKey) {
	t.Helper()
	for entry := range strings.SplitSeq(header, " ") {
		text, ok := strings.CutPrefix(entry, "v1a,")
		if !ok {
			continue
		}
		signature, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(keys) == 0 || !ed25519.Verify(keys[0].Public().(ed25519.PublicKey),
			[]byte("evt_1.1793620801.{}"), signature) {
			t.Fatalf("entry %q does not verify (%v)", entry, err)
		}
		keys = keys[1:]
	}
	if len(keys) > 0 {
		t.Errorf("%d keys did not sign", len(keys))
	}
}

// Every secret must be valid base64, because Standard Webhooks libraries decode it.
func TestEverySecretIsAStandardKey(t *testing.T) {
	for n := range 256 {
		var entropy [32]byte
		for i := range entropy {
			entropy[i] = byte(n * (i + 1))
		}
		text := strings.TrimPrefix(string(domain.NewSecret(entropy)), domain.SecretPrefix)
		if key, err := base64.StdEncoding.DecodeString(text); err != nil || len(key) != 39 {
			t.Fatalf("%q decodes to %d bytes, %v", text, len(key), err)
		}
	}
}

func TestNamesOfSignatures(t *testing.T) {
	var all domain.Signatures
	for _, name := range domain.SignatureNames() {
		one := domain.SignatureNamed(name)
		if all.Has(one) || !slices.Equal(one.Names(), []string{name}) {
			t.Errorf("%q is %d, which is %q", name, one, one.Names())
		}
		all |= one
	}
	if !slices.Equal(all.Names(), domain.SignatureNames()) || domain.Signatures(0).Names() != nil ||
		domain.SignatureNamed("v1") != 0 {
		t.Errorf("all are %q", all.Names())
	}
}

func BenchmarkSignatureHeader(b *testing.B) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	a := domain.Attempt{
		EventID:     "evt_0123456789abcdefghjkmnpqrs",
		Body:        make([]byte, 900),
		Secrets:     []domain.Secret{domain.NewSecret([32]byte{1})},
		SigningKeys: []domain.Secret{domain.Secret(private)},
	}
	for name, asked := range map[string]domain.Signatures{
		"the specification's":       0,
		"standard-webhooks":         domain.StandardWebhooks,
		"standard-webhooks-ed25519": domain.StandardWebhooksEd25519,
	} {
		b.Run(name, func(b *testing.B) {
			a.Signatures = asked
			b.ReportAllocs()
			for b.Loop() {
				a.SignatureHeader(1793620801)
			}
		})
	}
}

// Standard Webhooks libraries use a secret that is not base64 as a raw key.
func TestASecretThatIsNotBase64IsARawKey(t *testing.T) {
	a := standardVector
	for secret, key := range map[domain.Secret]string{
		"whsec_no base64": "no base64", "whsec_": "", "wh": "",
	} {
		a.Secrets = []domain.Secret{secret}
		h := hmac.New(sha256.New, []byte(key))
		h.Write([]byte(a.EventID + ".7." + string(a.Body)))
		want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
		if first, _, _ := strings.Cut(a.SignatureHeader(7), " "); first != want {
			t.Errorf("%q signs %s, want %s", string(secret), first, want)
		}
	}
}

// The key and its thumbprint are the example in RFC 8037, appendix A.3.
func TestAKeyIsNamedByItsThumbprint(t *testing.T) {
	public, err := base64.RawURLEncoding.DecodeString("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")
	if err != nil {
		t.Fatal(err)
	}
	if id := domain.SigningKeyID(public); id != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("the key is named %s", id)
	}
}
