package runfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// IdentitiesFile is the file of the development network's accounts in a folder that has one.
func IdentitiesFile(dir string) string { return filepath.Join(dir, "secrets", "devnet.json") }

// CheckNetwork refuses another network than the one with which the folder was begun, by its
// passphrase: what was read of one means nothing on the other. Of its own network, which the
// service starts itself, the passphrase is empty. The first start records it.
func (d *Folder) CheckNetwork(passphrase string) error {
	path := d.Join("network")
	text, err := os.ReadFile(path)
	begun := strings.TrimSpace(string(text))
	switch _, identities := os.Stat(IdentitiesFile(d.path)); {
	case errors.Is(err, os.ErrNotExist) && identities == nil:
		begun = "" // by a version that recorded nothing
	case errors.Is(err, os.ErrNotExist):
		return WriteFile(path, []byte(passphrase+"\n"))
	case err != nil:
		return fmt.Errorf("--data-dir: reading which network the folder is of: %w", err)
	}
	switch {
	case begun == passphrase:
		return nil
	case begun == "":
		return fmt.Errorf("--network: the data folder %s was begun with a development network of its "+
			"own: leave --network out, or name another folder with --data-dir", d.path)
	}
	return fmt.Errorf("--network: the data folder %s was begun with the network %q: name that one, "+
		"or another folder with --data-dir", d.path, begun)
}
