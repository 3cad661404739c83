package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// configuration reports problems of the settings themselves.
func (cfg *Config) configuration(_ context.Context, f *findings) {
	if cfg.Away != nil {
		f.unknown(cfg.Away, "")
	} else {
		f.ok("%s", cfg.What)
	}
	for _, fault := range cfg.Faults {
		f.failed(fault, "correct it; `lumenhook config check` prints which settings count, and where "+
			"each came from")
	}
}

// files checks who may read the files with secrets.
func (cfg *Config) files(_ context.Context, f *findings) {
	well := 0
	for _, path := range cfg.SecretFiles {
		if cfg.secretFile(path, f) {
			well++
		}
	}
	if well > 0 || len(cfg.SecretFiles) == 0 {
		f.ok("%d files of secrets can be read, and by no others", well)
	}
}

func (cfg *Config) secretFile(path string, f *findings) (well bool) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.add(Problem, "write it, or correct the setting that names it", "%s does not exist", path)
		return false
	}
	file, openErr := os.Open(path) // #nosec G304 -- a file that the operator named
	if err = errors.Join(err, openErr); err != nil {
		f.failed(err, "let the user that runs this program read it")
		return false
	}
	_ = file.Close()
	if open := info.Mode().Perm() &^ allowed(info); open != 0 {
		f.add(Problem, "run `chmod 600 "+path+"`", "%s has mode %04o: others may read or change it",
			path, info.Mode().Perm())
		return false
	}
	return true
}

// allowed are the rights that a file of secrets may have. One that root provides to the process
// of another user is read through its group: Kubernetes mounts secrets so, and systemd its
// credentials.
func allowed(info fs.FileInfo) fs.FileMode {
	mode := fs.FileMode(0o700)
	owner, known := info.Sys().(*syscall.Stat_t)
	if known && owner.Uid == 0 && os.Geteuid() != 0 {
		mode |= 0o040
	}
	return mode
}
