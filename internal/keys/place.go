package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MasterKeyVariable holds a master key if there is no file for it.
const MasterKeyVariable = "LUMENHOOK_MASTER_KEY"

// MasterKeyPlace is where the processes of a service have their master key: in a file, or in
// Variable.
type MasterKeyPlace struct {
	File    string // as configured; empty: that of the data folder, unless Variable is set
	DataDir string
}

// MasterKeyPath returns the path of the master key's file in a data folder.
func MasterKeyPath(dataDir string) string {
	return filepath.Join(dataDir, "secrets", "master-key.json")
}

// Path returns the file of the master key, whether it exists or not.
func (p MasterKeyPlace) Path() string {
	if p.File != "" {
		return p.File
	}
	return MasterKeyPath(p.DataDir)
}

// FromVariable returns the text of the master key if it is not in a file.
func (p MasterKeyPlace) FromVariable() (text string, set bool) {
	text, set = os.LookupEnv(MasterKeyVariable)
	return text, set && p.File == ""
}

// Text returns the master key's text.
func (p MasterKeyPlace) Text() ([]byte, error) {
	if text, set := p.FromVariable(); set {
		if _, err := os.Stat(p.Path()); err == nil {
			return nil, fmt.Errorf("there are two master keys: %s is set, and %s exists; "+
				"unset the one, or move the other away", MasterKeyVariable, p.Path())
		}
		return []byte(text), nil
	}
	switch _, err := LoadSealer(p.Path()); { // checks the mode too
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no master key at %s: name its file with --master-key-file, "+
			"or with --data-dir the folder of a run", p.Path())
	case err != nil:
		return nil, err
	}
	return os.ReadFile(p.Path())
}

// Keys lists the master key's keys, oldest first.
func (p MasterKeyPlace) Keys() ([]MasterKey, error) {
	text, err := p.Text()
	if err != nil {
		return nil, err
	}
	return MasterKeys(text)
}

// Open returns the master key of a service that does not share it, and its text. A missing
// file is created.
func (p MasterKeyPlace) Open() (*Sealer, []byte, error) {
	if _, set := p.FromVariable(); !set {
		s, err := LoadOrCreateSealer(p.Path())
		if err != nil {
			return nil, nil, err
		}
		text, err := p.Text()
		return s, text, err
	}
	text, err := p.Text()
	if err != nil {
		return nil, nil, err
	}
	s, err := ParseSealer(text)
	return s, text, err
}

// OpenExisting returns the master key of a service whose processes share it, and its text:
// none of them creates one.
func (p MasterKeyPlace) OpenExisting() (*Sealer, []byte, error) {
	text, err := p.Text()
	if err != nil {
		return nil, nil, fmt.Errorf("--master-key-file: %w "+
			"(`lumenhook secrets create` makes one, for all processes)", err)
	}
	if _, set := p.FromVariable(); set {
		s, err := ParseSealer(text)
		return s, text, err
	}
	s, err := LoadSealer(p.Path())
	return s, text, err
}
