package clickhouse

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/lumenhook/lumenhook/deploy"
)

// libraryMaxBytes bounds what an archive unpacks to. The pinned library has 566 MB.
const libraryMaxBytes = 2 << 30

// NPMPackage returns the pinned package of this project's platform, as npm names it: NAME@VERSION.
func NPMPackage() string {
	pin, err := deploy.ClickHouseEngine("linux-x64-gnu")
	if err != nil {
		panic("clickhouse: " + err.Error())
	}
	return pin.Package + "@" + pin.Version
}

// unpack writes the library from the archive to a file, and checks its hash.
func (in *installer) unpack(to string) error {
	err := in.copyLibrary(to)
	if err == nil {
		var sum string
		if sum, err = fileSHA256(to); err == nil && sum != in.pin.LibrarySHA256 {
			err = fmt.Errorf("%w: %s has SHA-256 %s, pinned is %s", ErrHashMismatch, in.pin.Library, sum,
				in.pin.LibrarySHA256)
		}
	}
	if err != nil {
		return fmt.Errorf("installing the ClickHouse engine from %s: %w; create this archive on any "+
			"machine with `npm pack %s@%s`", in.archive, err, in.pin.Package, in.pin.Version)
	}
	return nil
}

func (in *installer) copyLibrary(to string) error {
	f, err := os.Open(in.archive)
	if err != nil {
		return err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("reading a .tgz file: %w", err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive contains no %s", in.pin.Library)
		}
		if err != nil {
			return fmt.Errorf("reading a .tgz file: %w", err)
		}
		if path.Base(header.Name) == in.pin.Library && header.Typeflag == tar.TypeReg {
			break
		}
	}
	// #nosec G302 -- root may install the engine for the user of a service.
	library, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(library, io.LimitReader(archive, libraryMaxBytes))
	return errors.Join(err, library.Close())
}
