package receiver

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// aSecret is the form of a secret: a text with a space or a quotation mark is invalid.
var aSecret = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]+$`)

// maxSecretBytes bounds a file of secrets: an endpoint has 25 of 58 bytes at most.
const maxSecretBytes = 64 << 10

// Secrets are the secrets of an endpoint, each whole (whsec_…); several after a rotation.
type Secrets struct {
	file string // empty: they stay as they are

	mu      sync.Mutex
	list    []string
	readFor int64 // the Unix second in which they were read last
}

// NewSecrets returns secrets that stay as they are.
func NewSecrets(list ...string) (*Secrets, error) {
	if err := checkSecrets(list); err != nil {
		return nil, err
	}
	return &Secrets{list: append([]string(nil), list...)}, nil
}

// SecretsFromFile returns the secrets in a file, one a line. It is read again as webhooks come,
// once a second at most: a secret that a rotation adds to the file is taken without a restart, and
// one that is deleted from it no longer.
func SecretsFromFile(file string) (*Secrets, error) {
	list, err := readSecrets(file)
	if err != nil {
		return nil, err
	}
	return &Secrets{file: file, list: list}, nil
}

// Current returns the secrets at a time. Those of before stay where the file cannot be read.
func (s *Secrets) Current(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" || s.readFor == now.Unix() {
		return s.list
	}
	s.readFor = now.Unix()
	list, err := readSecrets(s.file)
	if err != nil {
		slog.Error("the secrets stay as they were", "error", err)
		return s.list
	}
	s.list = list
	return s.list
}

func readSecrets(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSecretBytes {
		return nil, fmt.Errorf("%s: it is too large for a file of secrets", name)
	}
	list := strings.Fields(string(text))
	if err := checkSecrets(list); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

func checkSecrets(list []string) error {
	if len(list) == 0 {
		return fmt.Errorf("there is no secret: %w", ErrSecret)
	}
	for _, secret := range list {
		if !aSecret.MatchString(secret) {
			return ErrSecret
		}
	}
	return nil
}
