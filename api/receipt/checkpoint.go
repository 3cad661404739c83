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

// Name identifies a log.
type Name struct {
	AccountID  string `json:"accountId"`
	EndpointID string `json:"endpointId"`
	From       uint64 `json:"from"` // domain.AttemptLog.From
}

const namePrefix = "lumenhook/"

// String returns the first line of the log's checkpoints.
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
		return n, fmt.Errorf("%q is not a Lumenhook log", text)
	}
	return n, nil
}

// Checkpoint is the state of a log.
type Checkpoint struct {
	Log  Name
	Tree tlog.Tree
}

// text returns the note's text (c2sp.org/tlog-checkpoint).
func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Log, c.Tree.N, c.Tree.Hash)
}

func parseCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 {
		return c, errors.New("the checkpoint must have three lines")
	}
	if c.Log, err = parseName(lines[0]); err != nil {
		return c, err
	}
	if c.Tree.N, err = strconv.ParseInt(lines[1], 10, 64); err == nil {
		c.Tree.Hash, err = tlog.ParseHash(lines[2])
	}
	if err != nil || c.Tree.N <= 0 || c.text() != text {
		return c, errors.New("the checkpoint has no valid size or root")
	}
	return c, nil
}

// keyPrefix is the prefix of key names in notes. The published key id follows.
const keyPrefix = "lumenhook/"

func verifierOf(public ed25519.PublicKey) (note.Verifier, error) {
	text, err := note.NewEd25519VerifierKey(keyPrefix+domain.SigningKeyID(public), public)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(text)
}

type signer struct {
	note.Verifier
	private ed25519.PrivateKey
}

func (s signer) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.private, text), nil }

func (c Checkpoint) sign(keys []domain.Secret) (string, error) {
	signers := make([]note.Signer, len(keys))
	for i, key := range keys {
		private := ed25519.PrivateKey(key)
		public, ok := private.Public().(ed25519.PublicKey)
		if !ok {
			return "", errors.New("receipt: a signing key is not an Ed25519 key")
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

// Keys are the public keys that a deployment has published.
type Keys struct{ verifiers []note.Verifier }

const maxKeys = 1000

// ParseKeys parses a JSON Web Key Set such as /.well-known/jwks.json. It ignores keys of other
// types, and returns an error if no Ed25519 key remains.
func ParseKeys(text []byte) (Keys, error) {
	var set struct {
		Keys []struct{ Kty, Crv, X, Kid string }
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return Keys{}, errors.New("not a JSON Web Key Set; download /.well-known/jwks.json")
	}
	var keys Keys
	for _, k := range set.Keys {
		if k.Kty != "OKP" || k.Crv != "Ed25519" {
			continue
		}
		public, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(public) != ed25519.PublicKeySize {
			return Keys{}, fmt.Errorf("key %q is not a valid Ed25519 key", k.Kid)
		}
		v, err := verifierOf(public)
		if err != nil {
			return Keys{}, fmt.Errorf("key %q: %w", k.Kid, err)
		}
		keys.verifiers = append(keys.verifiers, v)
	}
	if len(keys.verifiers) == 0 || len(keys.verifiers) > maxKeys {
		return Keys{}, fmt.Errorf("must have 1 to %d Ed25519 keys, got %d; to create a signing key, an "+
			"operator runs `lumenhook secrets signing create`", maxKeys, len(keys.verifiers))
	}
	return keys, nil
}

// open verifies a checkpoint's signatures and returns the ids of the keys that signed it.
func (k Keys) open(signed string) (c Checkpoint, signedBy []string, err error) {
	n, err := note.Open([]byte(signed), note.VerifierList(k.verifiers...))
	var invalid *note.InvalidSignatureError
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &invalid):
		return c, nil, fmt.Errorf("invalid signature by key %s: the checkpoint was changed or "+
			"never signed", strings.TrimPrefix(invalid.Name, keyPrefix))
	case errors.As(err, &unverified):
		return c, nil, errors.New("none of the given keys signed the checkpoint: use the keys " +
			"that the deployment published when the receipt was created")
	case err != nil:
		return c, nil, errors.New("the checkpoint is not a signed note")
	}
	for _, s := range n.Sigs {
		signedBy = append(signedBy, strings.TrimPrefix(s.Name, keyPrefix))
	}
	c, err = parseCheckpoint(n.Text)
	return c, signedBy, err
}
