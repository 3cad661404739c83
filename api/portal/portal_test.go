package portal_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/portal"
	"github.com/lumenhook/lumenhook/domain"
)

var made = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func grant() portal.Grant {
	return portal.Grant{
		AccountID:   "acc_1",
		KeyID:       "key_1",
		Permissions: []domain.Permission{domain.PermissionRead},
		EndsMillis:  made.Add(time.Hour).UnixMilli(),
	}
}

func link(t *testing.T, s *portal.Signer, g portal.Grant) (text string, opensMillis int64) {
	t.Helper()
	text, opensMillis, err := s.Link(g, made)
	if err != nil {
		t.Fatal(err)
	}
	return text, opensMillis
}

func TestALinkOpensForAWhileAndItsCredentialUntilTheEnd(t *testing.T) {
	s := portal.NewSigner([32]byte{1})
	text, opens := link(t, s, grant())
	if want := made.Add(portal.OpenFor).UnixMilli(); opens != want {
		t.Errorf("it opens until %d, want %d", opens, want)
	}
	last := time.UnixMilli(opens - 1)
	credential, g, ok := s.Open(text, last)
	if !ok || !reflect.DeepEqual(g, grant()) {
		t.Fatalf("%v %+v", ok, g)
	}
	if _, _, ok := s.Open(text, last); !ok {
		t.Error("it opens once only")
	}
	if _, _, ok := s.Open(text, time.UnixMilli(opens)); ok {
		t.Error("it still opens")
	}
	end := time.UnixMilli(grant().EndsMillis)
	if g, ok := s.Read(credential, end.Add(-time.Millisecond)); !ok || !reflect.DeepEqual(g, grant()) {
		t.Errorf("%v %+v", ok, g)
	}
	if _, ok := s.Read(credential, end); ok {
		t.Error("the credential outlives its end")
	}
}

func TestALinkThatEndsSoonOpensNoLonger(t *testing.T) {
	g := grant()
	g.EndsMillis = made.Add(time.Minute).UnixMilli()
	if _, opens := link(t, portal.NewSigner([32]byte{1}), g); opens != g.EndsMillis {
		t.Errorf("it opens until %d, and ends at %d", opens, g.EndsMillis)
	}
}

func TestWhatIsNoGrant(t *testing.T) {
	s, another := portal.NewSigner([32]byte{1}), portal.NewSigner([32]byte{2})
	text, _ := link(t, s, grant())
	credential, _, _ := s.Open(text, made)
	if _, ok := s.Read(text, made); ok {
		t.Error("a link is taken for a credential")
	}
	if _, _, ok := s.Open(credential, made); ok {
		t.Error("a credential is taken for a link, and would never end")
	}
	if _, ok := another.Read(credential, made); ok {
		t.Error("another deployment's is taken")
	}
	for i := range credential {
		changed := []byte(credential)
		changed[i] ^= 1
		if _, ok := s.Read(string(changed), made); ok {
			t.Errorf("with another byte %d it is taken", i)
		}
	}
	for _, other := range []string{"", "whp_", "whp_AA", credential + "A", credential[4:]} {
		if _, ok := s.Read(other, made); ok {
			t.Errorf("%q is taken", other)
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
