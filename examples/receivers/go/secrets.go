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

// aSecret matches a secret. It rejects spaces and quotation marks.
var aSecret = regexp.MustCompile(`^whsec_[A-Za-z0-9+/=_-]+$`)

// maxSecretBytes bounds a file of secrets. An endpoint has at most 25 secrets of 58 bytes.
const maxSecretBytes = 64 << 10

// Secrets are an endpoint's complete secrets (whsec_…). There are several after a rotation.
type Secrets struct {
	file string // empty: the secrets never change

	mu      sync.Mutex
	list    []string
	readFor int64 // the Unix second of the last read
}

// NewSecrets returns secrets that never change.
func NewSecrets(list ...string) (*Secrets, error) {
	if err := checkSecrets(list); err != nil {
		return nil, err
	}
	return &Secrets{list: append([]string(nil), list...)}, nil
}

// SecretsFromFile returns the secrets in a file, one per line. It picks up changes of the file when
// webhooks arrive, at most once per second. You can add and remove secrets without a restart.
func SecretsFromFile(file string) (*Secrets, error) {
	list, err := readSecrets(file)
	if err != nil {
		return nil, err
	}
	return &Secrets{file: file, list: list}, nil
}

// Current returns the secrets at a time. If the file cannot be read, it returns the previous ones.
func (s *Secrets) Current(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" || s.readFor == now.Unix() {
		return s.list
	}
	s.readFor = now.Unix()
	list, err := readSecrets(s.file)
	if err != nil {
		slog.Error("cannot read the secrets; keeping the previous ones", "error", err)
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
		return nil, fmt.Errorf("%s: too large for a file of secrets", name)
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
