package pki

import (
	"crypto/x509"
	"errors"
	"os"
)

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
