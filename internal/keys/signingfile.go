package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// SigningFileName is the name of the keys' file, in the folder of the master key's.
const SigningFileName = "signing-keys"

// SigningBeside returns the path of the keys' file in the folder of a master key's file.
func SigningBeside(masterKeyFile string) string {
	return filepath.Join(filepath.Dir(masterKeyFile), SigningFileName)
}

// CreateSigning makes the file with a first key, which signs from then on or later.
func CreateSigning(path string, s *Sealer, now, signsFrom time.Time) ([]SigningKey, error) {
	return replace(path, func(text []byte) ([]SigningKey, error) {
		if text != nil {
			return nil, fmt.Errorf("signing: %s exists: `lumenhook secrets signing rotate` makes another "+
				"key in it", path)
		}
		k, err := newSigningKey(s, now, signsFrom)
		return []SigningKey{k}, err
	})
}

// RotateSigning adds a key that signs from a time on, which is LeastLead away or more.
func RotateSigning(path string, s *Sealer, now, signsFrom time.Time) ([]SigningKey, error) {
	return change(path, func(keys []SigningKey) ([]SigningKey, error) {
		newest := keys[len(keys)-1]
		switch {
		case signsFrom.Before(now.Add(LeastLead)):
			return nil, fmt.Errorf("signing: a key must be published for %s before it signs, because "+
				"receivers keep the published keys for a while: let it sign later, or replace all keys at "+
				"once if one was stolen", LeastLead)
		case newest.SignsFrom.After(now):
			return nil, fmt.Errorf("signing: key %s was made already and signs from %s: rotate after that",
				newest.ID, newest.SignsFrom.Format(time.RFC3339))
		case len(keys) >= maxKeys:
			return nil, fmt.Errorf("signing: there are %d keys, which is the most: drop those that nothing "+
				"is verified by any more", maxKeys)
		}
		k, err := newSigningKey(s, now, signsFrom)
		return append(keys, k), err
	})
}

// ReplaceSigning makes a new key in place of all, which signs at once: nothing that an earlier one
// signed is verified any more.
func ReplaceSigning(path string, s *Sealer, now time.Time) ([]SigningKey, error) {
	return change(path, func([]SigningKey) ([]SigningKey, error) {
		k, err := newSigningKey(s, now, now)
		return []SigningKey{k}, err
	})
}

// DropSigning takes a key out of the file that signed last KeptPublished ago.
func DropSigning(path, id string, now time.Time) ([]SigningKey, error) {
	return change(path, func(keys []SigningKey) ([]SigningKey, error) {
		i := slices.IndexFunc(keys, func(k SigningKey) bool { return k.ID == id })
		if i < 0 {
			return nil, fmt.Errorf("signing: there is no key %s in %s", id, path)
		}
		until := SignsUntil(keys, i)
		if until.IsZero() {
			return nil, fmt.Errorf("signing: key %s is the newest, and was not dropped: rotate first", id)
		}
		if end := until.Add(KeptPublished); now.Before(end) {
			return nil, fmt.Errorf("signing: key %s was not dropped: it stays published until %s, for "+
				"those who verify later what it signed", id, end.Format(time.RFC3339))
		}
		return slices.Delete(keys, i, i+1), nil
	})
}

// ResealSigning re-encrypts the private keys with the newest master key, and returns the number of
// re-encrypted keys, 0 if there is no file.
func ResealSigning(path string, s *Sealer) (resealed int, err error) {
	keys, err := ReadSigning(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	old := func(k SigningKey) bool {
		_, changed, err := s.Reseal(k.Sealed, sealedFor(k.ID))
		return changed || err != nil
	}
	if !slices.ContainsFunc(keys, old) {
		return 0, nil
	}
	_, err = change(path, func(keys []SigningKey) ([]SigningKey, error) {
		for i, k := range keys {
			sealed, changed, err := s.Reseal(k.Sealed, sealedFor(k.ID))
			if err != nil {
				return nil, fmt.Errorf("signing: key %s of %s: %w", k.ID, path, err)
			}
			if changed {
				keys[i].Sealed, resealed = sealed, resealed+1
			}
		}
		return keys, nil
	})
	return resealed, err
}

// missingError is of a file of keys that is not there. It is [fs.ErrNotExist].
type missingError string

func (e missingError) Error() string {
	return fmt.Sprintf("signing: there is no %s: `lumenhook secrets signing create` makes it",
		string(e))
}

func (missingError) Is(target error) bool { return target == fs.ErrNotExist }

// ReadSigning returns the keys of a file, oldest first.
func ReadSigning(path string) ([]SigningKey, error) {
	text, err := readFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingError(path)
	case err != nil:
		return nil, fmt.Errorf("signing: %w", err)
	}
	keys, err := parseSigning(text)
	if err != nil {
		return nil, fmt.Errorf("signing: %s: %w", path, err)
	}
	return keys, nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s: %w", path, errNotKeys)
	}
	return os.ReadFile(path)
}

// change replaces the keys of a file that exists.
func change(path string, by func([]SigningKey) ([]SigningKey, error)) ([]SigningKey, error) {
	return replace(path, func(text []byte) ([]SigningKey, error) {
		if text == nil {
			return nil, missingError(path)
		}
		keys, err := parseSigning(text)
		if err != nil {
			return nil, fmt.Errorf("signing: %s: %w", path, err)
		}
		return by(keys)
	})
}

// replace rewrites a file. It passes the current content to by, or nil if the file does not exist.
func replace(
	path string, by func(text []byte) ([]SigningKey, error),
) (keys []SigningKey, err error) {
	err = changeFile(path, func() ([]byte, error) {
		text, err := readFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("signing: %w", err)
		}
		if keys, err = by(text); err != nil {
			return nil, err
		}
		return encodeSigning(keys)
	})
	return keys, err
}
