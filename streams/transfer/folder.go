package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/store"
)

// manifestName is the file that makes a folder a backup. It is written last.
const manifestName = "manifest.json"

// PrepareFolder creates a folder for a backup. It refuses a folder that is not empty.
func PrepareFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("transfer: making the folder: %w", err)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("transfer: reading the folder: %w", err)
	}
	if len(there) > 0 {
		return fmt.Errorf("transfer: %s is not empty: a backup needs a folder of its own (a date in "+
			"its name tells it from others)", dir)
	}
	return nil
}

// Save completes a backup in the folder in which the copy was captured.
func (c *Copy) Save(progress func(done, total int64)) error {
	for p, s := range c.states {
		f, err := writeState(filepath.Join(c.dir, stateFile(p)), stateFile(p), s)
		if err != nil {
			return err
		}
		c.about.States = append(c.about.States, f)
		progress(int64(p+1), int64(len(c.states)))
	}
	text, err := json.MarshalIndent(c.about, "", "  ")
	if err != nil {
		return fmt.Errorf("transfer: writing the manifest: %w", err)
	}
	return writeAtomically(filepath.Join(c.dir, manifestName), append(text, '\n'))
}

func writeAtomically(path string, text []byte) error {
	part := path + ".part"
	// #nosec G304 -- asked for
	out, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	_, err = out.Write(text)
	if err = errors.Join(err, out.Sync(), out.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("transfer: writing %s: %w", path, err)
	}
	return nil
}

// ReadManifest reads the manifest of a backup.
func ReadManifest(dir string) (m Manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName)) // #nosec G304 -- asked for
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("transfer: %s has no %s: it is no backup, or one that was interrupted", dir,
			manifestName)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("transfer: reading %s of %s: %w", manifestName, dir, err)
	}
	switch {
	case m.Format != copyFormat:
		return m, fmt.Errorf("transfer: the backup in %s is of form %d and this version reads %d: "+
			"restore it with version %s", dir, m.Format, copyFormat, m.Program)
	case m.StateFormat != engine.StateFormat:
		return m, fmt.Errorf("transfer: the states of the backup in %s are of format %d and those of "+
			"this "+
			"version of %d: restore it with version %s", dir, m.StateFormat, engine.StateFormat, m.Program)
	case int(m.Partitions) != len(m.States):
		return m, fmt.Errorf("transfer: the manifest in %s names %d states for %d partitions: it is "+
			"damaged; take another copy of the backup", dir, len(m.States), m.Partitions)
	}
	return m, nil
}

// Load checks every file of a backup, and loads its states into an empty scratch folder.
func Load(
	dir, scratch string, logger *slog.Logger, progress func(done, total int64),
) (_ *Copy, err error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	if err := checkFiles(dir, m, progress); err != nil {
		return nil, err
	}
	states, err := openStores(filepath.Join(scratch, "loaded"), m.Partitions, logger)
	if err != nil {
		return nil, err
	}
	c := &Copy{dir: dir, about: m, states: states, closer: states}
	if err := c.load(progress); err != nil {
		return nil, errors.Join(err, states.Close())
	}
	return c, nil
}

func checkFiles(dir string, m Manifest, progress func(done, total int64)) error {
	files := m.States
	for _, f := range m.Records {
		files = append(files, f.file)
	}
	for i, f := range files {
		if filepath.Base(f.Name) != f.Name {
			return fmt.Errorf("transfer: the manifest in %s names the file %q: it is damaged", dir, f.Name)
		}
		if err := checkFile(filepath.Join(dir, f.Name), f); err != nil {
			return err
		}
		progress(int64(i+1), int64(len(files)))
	}
	return nil
}

// load reads the states, and compares them with their digest in the manifest.
func (c *Copy) load(progress func(done, total int64)) error {
	for p, s := range c.states {
		if err := readState(filepath.Join(c.dir, c.about.States[p].Name), s); err != nil {
			return err
		}
		progress(int64(p+1), int64(len(c.states)))
	}
	digest, err := digestOf(c.states)
	if err == nil && digest.String() != c.about.Digest {
		err = fmt.Errorf("transfer: the states of the backup in %s are not those that were written "+
			"(digest %.16s… in place of %.16s…)", c.dir, digest, c.about.Digest)
	}
	return err
}

func stateFile(partition int) string { return fmt.Sprintf("state-%05d.zst", partition) }

func writeState(path, name string, s *store.Store) (f file, err error) {
	w, err := newTupleWriter(path, name)
	if err != nil {
		return f, err
	}
	err = s.Each(func(key, value []byte) (bool, error) { return true, w.write(key, value) })
	if err != nil {
		w.abandon()
		return f, err
	}
	return w.end()
}

func readState(path string, s *store.Store) error {
	batch, n := s.Begin(), 0
	err := readTuples(path, func(fields [][]byte) error {
		if len(fields) != 2 {
			return fmt.Errorf("transfer: reading %s: %w", path, errDamaged)
		}
		if err := batch.Set(fields[0], fields[1]); err != nil {
			return err
		}
		if n++; n%batchEntries != 0 {
			return nil
		}
		err := batch.Commit()
		batch = s.Begin()
		return err
	})
	if err != nil {
		batch.Discard()
		return err
	}
	return batch.Commit()
}
