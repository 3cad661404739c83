package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// clone copies a broker's folder. Files of a partition that are full are never written
// again, so they are linked; the copy may delete them. All others are copied.
func clone(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !full(path):
			return copyFile(path, target)
		}
		return os.Link(path, target) // #nosec G122 -- both folders are the benchmark's own
	})
}

// full reports whether a file is of a partition that has a later one.
func full(path string) bool {
	ending := filepath.Ext(path)
	if ending != ".dat" && ending != ".idx" {
		return false
	}
	siblings, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+ending))
	if err != nil || len(siblings) == 0 {
		return false
	}
	latest := siblings[0]
	for _, s := range siblings {
		if len(s) > len(latest) || len(s) == len(latest) && s > latest {
			latest = s
		}
	}
	return path != latest
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// topicBytes returns what the files of each topic take, by the topic's name.
func topicBytes(broker string) (map[string]int64, error) {
	by := make(map[string]int64)
	root := filepath.Join(broker, "partitions")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // deleted meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		of := filepath.Base(filepath.Dir(path))
		if at := strings.LastIndexByte(of, '-'); at > 0 {
			of = of[:at]
		}
		by[strings.TrimPrefix(of, prefix)] += info.Size()
		return nil
	})
	return by, err
}
