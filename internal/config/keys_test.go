package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
)

// draw generates a key. Its default permission is read.
func draw(t *testing.T, live bool, line string) (domain.Key, string, error) {
	t.Helper()
	var k Key
	set := pflag.NewFlagSet("create", pflag.ContinueOnError)
	k.Register(set, "read")
	if err := set.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	return k.Draw(live)
}

func TestAKeyIsDrawnAsItIsAskedFor(t *testing.T) {
	key, text, err := draw(t, false, "--permission operate,operate --name till "+
		"--allow-cidr 192.0.2.77/24,2001:db8::1 --expires-in 720h")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(key.Permissions, []domain.Permission{domain.PermissionOperate}) {
		t.Errorf("it may do %v", key.Permissions)
	}
	if want := []string{"192.0.2.0/24", "2001:db8::1/128"}; !slices.Equal(key.AllowedCIDRs, want) {
		t.Errorf("it may be used from %v, not %v", key.AllowedCIDRs, want)
	}
	if key.Name != "till" || key.ExpiresAtMillis == 0 || !domain.IsID(domain.KeyPrefix, key.ID) {
		t.Errorf("the key is %+v", key)
	}
	if !slices.Equal(key.Hash, domain.APIKeyHash(text)) || !strings.HasPrefix(text, "whk_test_") {
		t.Errorf("%q is not the text of the key, or not of a test network", text)
	}
	other, otherText, err := draw(t, true, "")
	if err != nil || other.ID == key.ID || !strings.HasPrefix(otherText, "whk_live_") {
		t.Errorf("another key is %+v, %v", other, err)
	}
	if !slices.Equal(other.Permissions, []domain.Permission{domain.PermissionRead}) {
		t.Errorf("without --permission it may do %v", other.Permissions)
	}
}

func TestFaultsOfAKeyAreNamedAtOnce(t *testing.T) {
	_, _, err := draw(t, false, "--permission x --allow-cidr y --expires-in -1h")
	for _, want := range []string{
		`--permission "x": must be read, write or operate`, `--allow-cidr "y": must be a network`,
		"--expires-in -1h0m0s: must be in the future",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	_, _, err = draw(t, false, "--permission=")
	if err == nil || !strings.Contains(err.Error(), "name one or more of read, write and operate") {
		t.Errorf("a key that may do nothing: %v", err)
	}
}
