// Package deploy carries the files under deploy/ that the program itself needs at run time, and
// those that tests need. It hides where they are and how they are written.
//
// Invariant: an Engine is complete (package, version, lock, hash of the library)
// or it is not there at all; a test reads every folder.
//
// File map: deploy.go (ClickHouse; clickhouse/ has one folder per platform, see its README.md),
// kafka.go (the Kafka that tests run against; kafka/).
package deploy

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed clickhouse/*/*
var files embed.FS

// Engine is one platform's pinned ClickHouse library on the npm registry.
type Engine struct {
	Platform      string // "linux-x64-gnu"
	Package       string // "@chdb/lib-linux-x64-gnu"
	Version       string // "26.7.3-stable.1"
	Library       string // file name inside the package: "libchdb.so"
	LibrarySHA256 string // lower-case hex
	PackageJSON   []byte
	LockJSON      []byte
}

// Platforms lists the platforms that have a pinned engine.
func Platforms() []string {
	entries, err := fs.ReadDir(files, "clickhouse")
	if err != nil {
		panic("deploy: the embedded folder clickhouse/ is missing: " + err.Error())
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// ClickHouseEngine returns the pinned engine of a platform. The error says that the platform has no
// engine, or which of its files is wrong.
func ClickHouseEngine(platform string) (Engine, error) {
	dir := path.Join("clickhouse", platform)
	var parts [3][]byte
	for i, name := range []string{"package.json", "package-lock.json", "SHA256SUMS"} {
		b, err := files.ReadFile(path.Join(dir, name))
		if err != nil {
			return Engine{}, fmt.Errorf("no ClickHouse engine is pinned for %s (pinned: %s)",
				platform, strings.Join(Platforms(), ", "))
		}
		parts[i] = b
	}
	e := Engine{Platform: platform, PackageJSON: parts[0], LockJSON: parts[1]}
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(e.PackageJSON, &manifest); err != nil {
		return Engine{}, fmt.Errorf("reading deploy/%s/package.json: %w", dir, err)
	}
	if len(manifest.Dependencies) != 1 {
		return Engine{}, fmt.Errorf("deploy/%s/package.json must name exactly one package, it names %d",
			dir, len(manifest.Dependencies))
	}
	for name, version := range manifest.Dependencies {
		e.Package, e.Version = name, version
	}
	sum := strings.Fields(string(parts[2]))
	if len(sum) != 2 || len(sum[0]) != 64 {
		return Engine{}, fmt.Errorf("deploy/%s/SHA256SUMS must hold one line: 64 hex characters, a "+
			"file name", dir)
	}
	e.LibrarySHA256, e.Library = sum[0], sum[1]
	return e, nil
}
