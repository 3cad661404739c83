package domain_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"reflect"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

var made = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func grant() domain.PortalGrant {
	return domain.PortalGrant{
		AccountID:   "acc_1",
		KeyID:       "key_1",
		Permissions: []domain.Permission{domain.PermissionRead},
		EndsMillis:  made.Add(time.Hour).UnixMilli(),
	}
}

func link(
	t *testing.T, s *domain.PortalSigner, g domain.PortalGrant,
) (text string, opensMillis int64) {
	t.Helper()
	text, opensMillis, err := s.Link(g, made.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	return text, opensMillis
}

func TestALinkOpensForAWhileAndItsCredentialUntilTheEnd(t *testing.T) {
	s := domain.NewPortalSigner([32]byte{1})
	text, opens := link(t, s, grant())
	if want := made.Add(domain.PortalOpenFor).UnixMilli(); opens != want {
		t.Errorf("it opens until %d, want %d", opens, want)
	}
	last := time.UnixMilli(opens - 1)
	credential, g, ok := s.Open(text, last.UnixMilli())
	if !ok || !reflect.DeepEqual(g, grant()) {
		t.Fatalf("%v %+v", ok, g)
	}
	if _, _, ok := s.Open(text, last.UnixMilli()); !ok {
		t.Error("it opens once only")
	}
	if _, _, ok := s.Open(text, opens); ok {
		t.Error("it still opens")
	}
	end := time.UnixMilli(grant().EndsMillis)
	if g, ok := s.Read(credential, end.UnixMilli()-1); !ok || !reflect.DeepEqual(g, grant()) {
		t.Errorf("%v %+v", ok, g)
	}
	if _, ok := s.Read(credential, end.UnixMilli()); ok {
		t.Error("the credential outlives its end")
	}
}

func TestALinkThatEndsSoonOpensNoLonger(t *testing.T) {
	g := grant()
	g.EndsMillis = made.Add(time.Minute).UnixMilli()
	if _, opens := link(t, domain.NewPortalSigner([32]byte{1}), g); opens != g.EndsMillis {
		t.Errorf("it opens until %d, and ends at %d", opens, g.EndsMillis)
	}
}

func TestWhatIsNoGrant(t *testing.T) {
	s, another := domain.NewPortalSigner([32]byte{1}), domain.NewPortalSigner([32]byte{2})
	text, _ := link(t, s, grant())
	credential, _, _ := s.Open(text, made.UnixMilli())
	if _, ok := s.Read(text, made.UnixMilli()); ok {
		t.Error("a link is taken for a credential")
	}
	if _, _, ok := s.Open(credential, made.UnixMilli()); ok {
		t.Error("a credential is taken for a link, and would never end")
	}
	if _, ok := another.Read(credential, made.UnixMilli()); ok {
		t.Error("another deployment's is taken")
	}
	for i := range credential {
		changed := []byte(credential)
		changed[i] ^= 1
		if _, ok := s.Read(string(changed), made.UnixMilli()); ok {
			t.Errorf("with another byte %d it is taken", i)
		}
	}
	for _, other := range []string{"", "whp_", "whp_AA", credential + "A", credential[4:]} {
		if _, ok := s.Read(other, made.UnixMilli()); ok {
			t.Errorf("%q is taken", other)
		}
	}
}

// A grant for one endpoint has a different MAC. A node that runs an older release would ignore
// the endpoint and grant access to the whole account.
func TestAGrantOfOneEndpointIsNoGrantOfItsAccount(t *testing.T) {
	s := domain.NewPortalSigner([32]byte{1})
	g := grant()
	g.EndpointID = "ep_1"
	text, _ := link(t, s, g)
	credential, opened, ok := s.Open(text, made.UnixMilli())
	if !ok || !reflect.DeepEqual(opened, g) {
		t.Fatalf("%v %+v", ok, opened)
	}
	if read, ok := s.Read(credential, made.UnixMilli()); !ok || !reflect.DeepEqual(read, g) {
		t.Errorf("%v %+v", ok, read)
	}
	for purpose, text := range map[string]string{"link": text, "credential": credential} {
		raw, err := base64.RawURLEncoding.DecodeString(text[len("whp_"):])
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, append([]byte{1}, make([]byte, 31)...))
		mac.Write([]byte(purpose + "\n"))
		mac.Write(raw[sha256.Size:])
		if hmac.Equal(mac.Sum(nil), raw[:sha256.Size]) {
			t.Errorf("a %s of one endpoint is signed as one of the whole account", purpose)
		}
	}
}

func TestAGrantNarrowsItsKeyAndNeverWidensIt(t *testing.T) {
	g := grant()
	g.Permissions = []domain.Permission{domain.PermissionRead, domain.PermissionOperate}
	key := domain.Key{Permissions: []domain.Permission{domain.PermissionWrite, domain.PermissionRead}}
	if got := g.Narrow(key).Permissions; !reflect.DeepEqual(got,
		[]domain.Permission{domain.PermissionRead}) {
		t.Errorf("%v", got)
	}
	if len(key.Permissions) != 2 {
		t.Error("the key itself was changed")
	}
}
