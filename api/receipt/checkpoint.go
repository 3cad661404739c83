package receipt

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/lumenhook/lumenhook/domain"
)

// Name names a log.
type Name struct {
	AccountID  string `json:"accountId"`
	EndpointID string `json:"endpointId"`
	From       uint64 `json:"from"` // domain.AttemptLog.From
}

const namePrefix = "lumenhook/"

// String is the first line of the log's checkpoints.
func (n Name) String() string {
	return namePrefix + n.AccountID + "/" + n.EndpointID + "/" + strconv.FormatUint(n.From, 10)
}

func parseName(text string) (n Name, err error) {
	rest, ours := strings.CutPrefix(text, namePrefix)
	parts := strings.Split(rest, "/")
	if ours && len(parts) == 3 {
		n.AccountID, n.EndpointID = parts[0], parts[1]
		n.From, err = strconv.ParseUint(parts[2], 10, 64)
	}
	if err != nil || n.From == 0 || n.String() != text ||
		!domain.IsID(domain.AccountPrefix, n.AccountID) ||
		!domain.IsID(domain.EndpointPrefix, n.EndpointID) {
		return n, fmt.Errorf("%q is no log of Lumenhook's", text)
	}
	return n, nil
}

// Checkpoint is the state of a log.
type Checkpoint struct {
	Log  Name
	Tree tlog.Tree
}

// text is the body of the note (c2sp.org/tlog-checkpoint).
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Log, c.Tree.N, c.Tree.Hash)
}

func parseCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return c, errors.New("the checkpoint is not of three lines")
	}
	if c.Log, err = parseName(lines[0]); err != nil {
		return c, err
	}
	if c.Tree.N, err = strconv.ParseInt(lines[1], 10, 64); err == nil {
		c.Tree.Hash, err = tlog.ParseHash(lines[2])
	}
	if err != nil || c.Tree.N <= 0 || c.text() != text {
		return c, errors.New("the checkpoint has no size or no root")
	}
	return c, nil
}

// keyPrefix begins the name of a key in a note; its id among the published ones follows.
const keyPrefix = "lumenhook/"

// verifierOf is the verifier of a published key.
func verifierOf(public ed25519.PublicKey) (note.Verifier, error) {
	text, err := note.NewEd25519VerifierKey(keyPrefix+domain.SigningKeyID(public), public)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(text)
}

// signer signs notes with a key of the deployment. Its name and hash are the verifier's.
type signer struct {
	note.Verifier
	private ed25519.PrivateKey
}

// Sign implements note.Signer.
func (s signer) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.private, text), nil }

// sign returns the checkpoint as a note.
func (c Checkpoint) sign(keys []domain.Secret) (string, error) {
	signers := make([]note.Signer, len(keys))
	for i, key := range keys {
		private := ed25519.PrivateKey(key)
		public, ok := private.Public().(ed25519.PublicKey)
		if !ok {
			return "", errors.New("receipt: a signing key is none of Ed25519")
		}
		v, err := verifierOf(public)
		if err != nil {
			return "", fmt.Errorf("receipt: a signing key: %w", err)
		}
		signers[i] = signer{v, private}
	}
	signed, err := note.Sign(&note.Note{Text: c.text()}, signers...)
	return string(signed), err
}

// Keys are published keys.
type Keys struct{ verifiers []note.Verifier }

const maxKeys = 1000

// ParseKeys reads a JSON Web Key Set, as /.well-known/jwks.json has it. Keys of other kinds are
// passed over; a set that leaves none is an error.
func ParseKeys(text []byte) (Keys, error) {
	var set struct {
		Keys []struct{ Kty, Crv, X, Kid string }
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return Keys{}, errors.New("it is no JSON Web Key Set, as /.well-known/jwks.json answers with")
	}
	var keys Keys
	for _, k := range set.Keys {
		if k.Kty != "OKP" || k.Crv != "Ed25519" {
			continue
		}
		public, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(public) != ed25519.PublicKeySize {
			return Keys{}, fmt.Errorf("the key %q in it is no Ed25519 key", k.Kid)
		}
		v, err := verifierOf(public)
		if err != nil {
			return Keys{}, fmt.Errorf("the key %q in it: %w", k.Kid, err)
		}
		keys.verifiers = append(keys.verifiers, v)
	}
	if len(keys.verifiers) == 0 || len(keys.verifiers) > maxKeys {
		return Keys{}, fmt.Errorf("it has %d Ed25519 keys, and not 1 to %d: a deployment publishes them "+
			"at /.well-known/jwks.json once whoever runs it has made one with `lumenhook secrets signing "+
			"create`", len(keys.verifiers), maxKeys)
	}
	return keys, nil
}

// open verifies the signatures of a checkpoint, and returns it with the ids of the keys that
// signed it.
func (k Keys) open(signed string) (c Checkpoint, signedBy []string, err error) {
	n, err := note.Open([]byte(signed), note.VerifierList(k.verifiers...))
	var invalid *note.InvalidSignatureError
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &invalid):
		return c, nil, fmt.Errorf("the signature by the key %s is wrong: the checkpoint was changed, or "+
			"never signed", strings.TrimPrefix(invalid.Name, keyPrefix))
	case errors.As(err, &unverified):
		return c, nil, errors.New("no key that signed the checkpoint is among the given ones: give the " +
			"keys that the deployment published when the receipt was made")
	case err != nil:
		return c, nil, errors.New("the checkpoint is no signed note")
	}
	for _, s := range n.Sigs {
		signedBy = append(signedBy, strings.TrimPrefix(s.Name, keyPrefix))
	}
	c, err = parseCheckpoint(n.Text)
	return c, signedBy, err
}
