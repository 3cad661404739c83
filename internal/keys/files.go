package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	keyBlock  = "PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

func decodeKey(raw []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != keyBlock {
		return nil, errors.New("no PEM private key at its beginning")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is a %T, not ECDSA", parsed)
	}
	return key, nil
}

// decodePair reads a key followed by the certificate that belongs to it.
func decodePair(raw []byte) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := decodeKey(raw)
	if err != nil {
		return nil, nil, err
	}
	_, rest := pem.Decode(raw)
	block, _ := pem.Decode(rest)
	if block == nil || block.Type != certBlock {
		return nil, nil, errors.New("no certificate after the key")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, nil, err
	}
	if public, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || !key.PublicKey.Equal(public) {
		return nil, nil, errors.New("the certificate belongs to another key")
	}
	return key, cert, nil
}

// writeIfOther leaves a file alone that holds the content already, so that
// readers who watch it see no change at each start.
func writeIfOther(path string, content []byte, mode fs.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	return writeByRename(path, content, mode)
}

// writeByRename puts a whole file in place, on disk before its name is.
func writeByRename(path string, content []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = errors.Join(f.Chmod(mode), KeepOwner(f, path)); err != nil {
		return err
	}
	if _, err = f.Write(content); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadAuthorities reads a PEM file of certificates; an empty name means none.
func ReadAuthorities(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = errors.New("holds no certificate in PEM form")
	}
	return pem, err
}
