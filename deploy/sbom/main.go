// Command sbom lists what is in an archive of a release, as CycloneDX: its files, and the
// modules that the program among them was compiled of, as the program itself says.
// .goreleaser.yaml runs it for each archive:
//
//	go run ./deploy/sbom -version v1.2.3 ARCHIVE.tar.gz DOCUMENT.json
//
// One archive always gives one document: there is neither a time nor anything drawn in it.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// fileMaxBytes bounds a file of an archive; the program has 90 MB.
const fileMaxBytes = 1 << 30

func main() {
	version := flag.String("version", "", "version of the release")
	flag.Parse()
	if *version == "" || flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom -version VERSION ARCHIVE.tar.gz DOCUMENT.json")
		os.Exit(2)
	}
	if err := run(*version, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(version, archive, document string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	bom, err := contents(in, version)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	out, err := os.Create(document)
	if err != nil {
		return err
	}
	err = cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return errors.Join(err, out.Close())
}

// contents lists an archive that holds one Go program.
func contents(archive io.Reader, version string) (*cdx.BOM, error) {
	unpacked, err := gzip.NewReader(archive)
	if err != nil {
		return nil, err
	}
	bom := cdx.NewBOM()
	components := []cdx.Component{}
	for files := tar.NewReader(unpacked); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(files, fileMaxBytes+1))
		if err == nil && len(data) > fileMaxBytes {
			err = fmt.Errorf("is larger than %d bytes", fileMaxBytes)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
		components = append(components, file(header.Name, data))
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			continue // no program
		}
		if bom.Metadata != nil {
			return nil, fmt.Errorf("%s is a second program", header.Name)
		}
		bom.Metadata = &cdx.Metadata{Component: program(info, version)}
		components = append(components, modules(info)...)
	}
	if bom.Metadata == nil {
		return nil, errors.New("holds no Go program")
	}
	bom.Components = &components
	return bom, nil
}

func file(name string, data []byte) cdx.Component {
	sum := sha256.Sum256(data)
	return cdx.Component{
		BOMRef: "file:" + name,
		Type:   cdx.ComponentTypeFile,
		Name:   name,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
	}
}

// program is what the release is of, with how it was built.
func program(info *debug.BuildInfo, version string) *cdx.Component {
	var settings []cdx.Property
	for _, s := range info.Settings {
		settings = append(settings, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	c := module(info.Main.Path, version)
	c.Type, c.Properties = cdx.ComponentTypeApplication, &settings
	return &c
}

// modules are those that the program was compiled of, the standard library first.
func modules(info *debug.BuildInfo) []cdx.Component {
	all := []cdx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module(m.Path, m.Version)
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		all = append(all, c)
	}
	return all
}

// module is a component with its package URL, in which a plus stands for a space.
func module(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{
		BOMRef:     purl,
		Type:       cdx.ComponentTypeLibrary,
		Name:       path,
		Version:    version,
		PackageURL: purl,
	}
}
