package keys_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/keys"
)

var begin = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// place is a folder with a master key and a file for signing keys.
type place struct {
	t      *testing.T
	master string
	path   string
	sealer *keys.Sealer
	logged bytes.Buffer // log of the rings that follow the file
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, master: filepath.Join(t.TempDir(), "master-key")}
	p.path = keys.SigningKeyPath(p.master)
	var err error
	if p.sealer, err = keys.LoadOrCreateSealer(p.master); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) create() keys.SigningKey {
	p.t.Helper()
	list, err := keys.CreateSigning(p.path, p.sealer, begin, begin)
	if err != nil || len(list) != 1 {
		p.t.Fatalf("%d keys, %v", len(list), err)
	}
	return list[0]
}

func (p *place) rotate(now, from time.Time) keys.SigningKey {
	p.t.Helper()
	list, err := keys.RotateSigning(p.path, p.sealer, now, from)
	if err != nil {
		p.t.Fatal(err)
	}
	return list[len(list)-1]
}

func (p *place) open() *keys.SigningRing {
	p.t.Helper()
	r, err := keys.OpenSigning(p.path, p.sealer, func() time.Time { return begin },
		slog.New(slog.NewTextHandler(&p.logged, nil)))
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// wantSigners checks which keys sign at a time, newest first, by verifying what they sign.
func (p *place) wantSigners(r *keys.SigningRing, at time.Time, want ...keys.SigningKey) {
	p.t.Helper()
	signers, err := r.Signers(at.UnixMilli())
	if err != nil || len(signers) != len(want) {
		p.t.Fatalf("at %s %d sign (%v), want %d", at, len(signers), err, len(want))
	}
	for i, k := range want {
		signature := ed25519.Sign(ed25519.PrivateKey(signers[i]), []byte("x"))
		if !ed25519.Verify(k.Public, []byte("x"), signature) {
			p.t.Errorf("at %s signer %d is not %s", at, i, k.ID)
		}
	}
}

func wantErr(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %q", err, text)
	}
}

// A key must be published before it signs, sign together with the previous key for a day, and stay
// published long afterwards.
func TestWhoSignsWhen(t *testing.T) {
	p := newPlace(t)
	first := p.create()
	_, err := keys.CreateSigning(p.path, p.sealer, begin, begin)
	wantErr(t, err, "exists")
	_, err = keys.RotateSigning(p.path, p.sealer, begin, begin.Add(2*time.Hour-time.Second))
	wantErr(t, err, "must be published for 2h0m0s before it signs")
	from := begin.Add(48 * time.Hour)
	second := p.rotate(begin.Add(time.Hour), from)
	_, err = keys.RotateSigning(p.path, p.sealer, begin.Add(2*time.Hour), from.Add(time.Hour))
	wantErr(t, err, "was made already and signs from 2026-11-25T12:00:00Z")

	r := p.open()
	p.wantSigners(r, begin.Add(-time.Second))
	p.wantSigners(r, begin, first)
	p.wantSigners(r, from.Add(-time.Second), first)
	p.wantSigners(r, from, second, first)
	p.wantSigners(r, from.Add(keys.Overlap-time.Second), second, first)
	p.wantSigners(r, from.Add(keys.Overlap), second)
	if list := r.Published(); len(list) != 2 || list[0].ID != first.ID || list[1].ID != second.ID {
		t.Errorf("published %+v", list)
	}

	gone := from.Add(keys.Overlap + keys.KeptPublished)
	_, err = keys.DropSigning(p.path, first.ID, gone.Add(-time.Second))
	wantErr(t, err, "stays published until 2026-12-26T12:00:00Z")
	_, err = keys.DropSigning(p.path, second.ID, gone)
	wantErr(t, err, "is the newest")
	_, err = keys.DropSigning(p.path, "x", gone)
	wantErr(t, err, "there is no key x")
	if list, err := keys.DropSigning(p.path, first.ID, gone); err != nil || len(list) != 1 ||
		list[0].ID != second.ID {
		t.Errorf("left %+v, %v", list, err)
	}
}

// After a replacement, no old key may sign or be published.
func TestAStolenKeyIsReplacedAtOnce(t *testing.T) {
	p := newPlace(t)
	p.create()
	p.rotate(begin, begin.Add(24*time.Hour))
	list, err := keys.ReplaceSigning(p.path, p.sealer, begin.Add(time.Hour))
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	p.wantSigners(p.open(), begin.Add(time.Hour), list[0])
}

// A running process must pick up a file that is created after its start, and its rotation. It must
// keep the keys if the file breaks or disappears.
func TestARunningProcessFollows(t *testing.T) {
	p := newPlace(t)
	r := p.open()
	if r.Signs() || len(r.Published()) != 0 {
		t.Error("keys without a file")
	}
	p.wantSigners(r, begin)
	await := func(n int) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(10 * time.Second); len(r.Published()) != n; <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("%d keys are published, never %d", len(r.Published()), n)
			}
		}
	}
	first := p.create()
	await(1)
	if !r.Signs() {
		t.Error("the first key does not sign")
	}
	second := p.rotate(begin, begin.Add(2*time.Hour))
	await(2)
	p.wantSigners(r, begin.Add(2*time.Hour), second, first)
	good, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	if said := p.logged.String(); said != "" {
		t.Errorf("nothing was wrong: %s", said)
	}
	for n, spoil := range []func() error{
		func() error { return os.WriteFile(p.path, []byte("{}"), 0o600) },
		func() error { return os.Remove(p.path) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if !r.Look() {
				t.Error("the file is still good")
			}
		}
		p.wantSigners(r, begin.Add(2*time.Hour), second, first)
		if said := strings.Count(p.logged.String(), "cannot read the signing key file"); said != n+1 {
			t.Errorf("it was said %d times, of %d: %s", said, n+1, p.logged.String())
		}
		if err := os.WriteFile(p.path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if r.Look() {
			t.Error("a file that is good again cannot be read")
		}
	}
	var none *keys.SigningRing
	list, err := none.Signers(0)
	if none.Signs() || none.Published() != nil || list != nil || err != nil {
		t.Error("a process without signing keys has some")
	}
}

// Private keys must be stored sealed, open only with their master key, and move to the newest
// master key by resealing.
func TestPrivateKeysAreSealed(t *testing.T) {
	p := newPlace(t)
	first := p.create()
	second := p.rotate(begin, begin.Add(2*time.Hour))
	opened, err := p.sealer.Open(first.Sealed, "signing key "+first.ID)
	if err != nil || len(opened) != ed25519.SeedSize {
		t.Fatalf("%d bytes, %v", len(opened), err)
	}
	other := newPlace(t)
	r, err := keys.OpenSigning(p.path, other.sealer, time.Now, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Signers(begin.UnixMilli())
	wantErr(t, err, "is this the master key it was sealed with?")
	if !errors.Is(err, keys.ErrUnknownKey) {
		t.Errorf("got %v", err)
	}

	if n, err := keys.ResealSigning(p.path, p.sealer); n != 0 || err != nil {
		t.Errorf("resealed %d, %v", n, err)
	}
	old := p.sealer.Newest()
	if _, err := keys.RotateMasterFile(p.master, false); err != nil {
		t.Fatal(err)
	}
	fresh, err := keys.LoadSealer(p.master)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := keys.ResealSigning(p.path, fresh); n != 2 || err != nil {
		t.Errorf("resealed %d, %v", n, err)
	}
	list, err := keys.ReadSigning(p.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		if by, _ := keys.SealedBy(k.Sealed); by == old || by != fresh.Newest() {
			t.Errorf("key %s lies under %d", k.ID, by)
		}
	}
	p.wantSigners(p.open(), begin.Add(2*time.Hour), second, first)
	if n, err := keys.ResealSigning(filepath.Join(t.TempDir(), "none"), fresh); n != 0 || err != nil {
		t.Errorf("no file: %d, %v", n, err)
	}

	list[0].Sealed, list[1].Sealed = list[1].Sealed, list[0].Sealed
	text, err := json.Marshal(map[string]any{"keys": list})
	if err == nil {
		err = os.WriteFile(p.path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.open().Signers(begin.UnixMilli())
	if !errors.Is(err, keys.ErrAltered) {
		t.Errorf("a key in another's place: %v", err)
	}
}

// A file that the commands did not write must be refused as a whole, and the error must not quote
// it.
func TestWhatAFileMayHold(t *testing.T) {
	p := newPlace(t)
	_, err := keys.RotateSigning(p.path, p.sealer, begin, begin.Add(24*time.Hour))
	wantErr(t, err, "`lumenhook secrets signing create` makes it")
	if _, err := keys.ReadSigning(p.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	p.create()
	p.rotate(begin, begin.Add(2*time.Hour))
	list, err := keys.ReadSigning(p.path)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*keys.SigningKey)) []keys.SigningKey {
		all := slices.Clone(list)
		change(&all[1])
		return all
	}
	for name, all := range map[string][]keys.SigningKey{
		"no keys":        {},
		"another id":     changed(func(k *keys.SigningKey) { k.ID = "x" }),
		"another key":    changed(func(k *keys.SigningKey) { k.Public = slices.Clone(list[0].Public) }),
		"half a key":     changed(func(k *keys.SigningKey) { k.Public = k.Public[:16] }),
		"another order":  changed(func(k *keys.SigningKey) { k.SignsFrom = begin.Add(-time.Hour) }),
		"more than many": slices.Repeat(list[:1], 101),
	} {
		text, err := json.Marshal(map[string]any{"keys": all})
		if err == nil {
			err = os.WriteFile(p.path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keys.OpenSigning(p.path, p.sealer, time.Now, slog.Default()); err == nil ||
			!strings.Contains(err.Error(), "restore it from a backup") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(p.path, []byte("topsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.ReadSigning(p.path); err == nil || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("nonsense: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(p.path)); err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

// An id must not begin with a hyphen. Without a check, one in 64 would.
func TestNoIDLooksLikeAFlag(t *testing.T) {
	p := newPlace(t)
	for range 500 {
		k, err := keys.NewKey(p.sealer, begin, begin)
		if err != nil || strings.HasPrefix(k.ID, "-") {
			t.Fatalf("%q, %v", k.ID, err)
		}
	}
}

// A signature for one endpoint must verify with no key of another endpoint or of the deployment.
// During a rotation, an endpoint's key signs and is published as long as the deployment's key from
// which it is derived.
func TestEachEndpointHasKeysOfItsOwn(t *testing.T) {
	p := newPlace(t)
	p.create()
	from := begin.Add(48 * time.Hour)
	p.rotate(begin.Add(time.Hour), from)
	r := p.open()
	mine, others := domain.DeriveID(domain.EndpointPrefix, "victim"),
		domain.DeriveID(domain.EndpointPrefix, "mallory")
	published := map[string][]ed25519.PublicKey{}
	for _, id := range []string{mine, others} {
		list, err := r.EndpointPublished(id)
		if err != nil || len(list) != 2 {
			t.Fatalf("%d keys of %s, %v", len(list), id, err)
		}
		published[id] = list
	}
	for _, k := range r.Published() {
		published["the deployment"] = append(published["the deployment"], k.Public)
	}
	for at, signs := range map[time.Time][]int{ // indexes of published keys
		begin: {0}, from: {1, 0}, from.Add(keys.Overlap): {1},
	} {
		for range 2 { // the first time derived, then cached
			private, err := r.EndpointSigners(mine, at.UnixMilli())
			if err != nil || len(private) != len(signs) {
				t.Fatalf("at %s %d keys sign, %v", at, len(private), err)
			}
			for i, key := range private {
				signature := ed25519.Sign(ed25519.PrivateKey(key), []byte("a webhook"))
				for of, list := range published {
					for n, public := range list {
						verifies := ed25519.Verify(public, []byte("a webhook"), signature)
						if want := of == mine && n == signs[i]; verifies != want {
							t.Errorf("at %s key %d of %s verifies it: %v", at, n, of, verifies)
						}
					}
				}
			}
		}
	}
}

// Receivers may store an endpoint's public key, so it must never change. Another program computed
// the expected seed (HKDF-SHA256, RFC 5869).
func TestAnEndpointsKeyNeverChanges(t *testing.T) {
	p := newPlace(t)
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	k := keys.SigningKey{
		ID: domain.SigningKeyID(public), Public: public, MadeAt: begin, SignsFrom: begin,
	}
	var err error
	if k.Sealed, err = p.sealer.Seal(seed, "signing key "+k.ID); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"keys": []keys.SigningKey{k}})
	if err == nil {
		err = os.WriteFile(p.path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(
		"1058a4419b35bf58d4dc176168a1cfb84785dd34b1d84852c6f1ced746a19e1f")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.open().EndpointSigners("ep_4j8g2m1v7q0x9z3k5n6p8r2t4w", begin.UnixMilli())
	if err != nil || len(got) != 1 || string(got[0]) != string(ed25519.NewKeyFromSeed(want)) {
		t.Errorf("%d keys, of another seed, %v", len(got), err)
	}
}
