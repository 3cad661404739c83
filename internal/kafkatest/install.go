package kafkatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lumenhook/lumenhook/deploy"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const installTimeout = 10 * time.Minute

// Install returns the directory of Kafka's jars. It downloads them with Maven if necessary.
// Concurrent processes share one download.
func Install(ctx context.Context) (dir string, err error) {
	pin, err := deploy.Kafka()
	if err != nil {
		return "", err
	}
	return install(ctx, pin.Version, pin)
}

func installTiered(ctx context.Context) (dir string, err error) {
	pin, err := deploy.TieredKafka()
	if err != nil {
		return "", err
	}
	return install(ctx, pin.Version+"-tiered", pin)
}

// install returns a directory in the cache with exactly the pinned files.
func install(ctx context.Context, name string, pin deploy.KafkaPin) (dir string, err error) {
	root, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(root, name)
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	lock, err := subprocess.Lock(ctx, dir+".lock")
	if err != nil {
		return "", fmt.Errorf("waiting for another process that installs Kafka: %w", err)
	}
	defer lock.Close()
	err = verify(dir, pin)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if err := fetch(ctx, dir, pin); err != nil {
		return "", err
	}
	return dir, verify(dir, pin)
}

func cacheDir() (string, error) {
	root := os.Getenv("LUMENHOOK_CACHE_DIR")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding a cache folder for Kafka: %w; set LUMENHOOK_CACHE_DIR", err)
		}
		root = filepath.Join(user, "lumenhook")
	}
	root = filepath.Join(root, "kafka")
	return root, os.MkdirAll(root, 0o750) // #nosec G703 -- the developer's own folder
}

// fetch downloads the pinned artifacts into dir, either all or none.
func fetch(ctx context.Context, dir string, pin deploy.KafkaPin) error {
	staging, err := os.MkdirTemp(filepath.Dir(dir), ".install-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	pom := filepath.Join(staging, "pom.xml")
	if err := os.WriteFile(pom, pin.POM, 0o600); err != nil {
		return err
	}
	jars := filepath.Join(staging, "jars")
	// #nosec G204 -- a fixed program; what varies is a folder of our own
	mvn := exec.CommandContext(ctx, "mvn", "-B", "-q", "-ntp", "-f", pom,
		"dependency:copy-dependencies", "-DoutputDirectory="+jars)
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("fetching Kafka %s with Maven (is `mvn` installed?): %w\n%s",
			pin.Version, err, bytes.TrimSpace(out))
	}
	return os.Rename(jars, dir)
}

func verify(dir string, pin deploy.KafkaPin) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) != len(pin.SHA256) {
		return fmt.Errorf("%s contains %d files, but %d are pinned; remove it to download them again",
			dir, len(entries), len(pin.SHA256))
	}
	for _, e := range entries {
		sum, err := fileSHA256(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		if want := pin.SHA256[e.Name()]; sum != want {
			return fmt.Errorf("%s in %s has SHA-256 %s, but %q is pinned; remove the folder "+
				"to download it again", e.Name(), dir, sum, want)
		}
	}
	return nil
}

func fileSHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
