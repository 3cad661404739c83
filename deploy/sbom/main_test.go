package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// packed is an archive of files.
func packed(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for name, data := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o755}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "archive.tar.gz")
	if w.Close() != nil || zipped.Close() != nil || os.WriteFile(path, b.Bytes(), 0o600) != nil {
		t.Fatal("the archive cannot be written")
	}
	return path
}

// thisProgram is a Go program that was compiled of the module that writes the lists.
func thisProgram(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAListNamesFilesAndModules, and is read back by the library of its format.
func TestAListNamesFilesAndModules(t *testing.T) {
	archive := packed(t, map[string][]byte{"bin/program": thisProgram(t), "LICENSE": []byte("free")})
	document := filepath.Join(t.TempDir(), "list.json")
	for range 2 { // one archive, one document
		before, _ := os.ReadFile(document)
		if err := run("v9.8.7+next", archive, document); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(document); err != nil ||
			before != nil && !bytes.Equal(before, after) {
			t.Errorf("the second list is another (%v)", err)
		}
	}
	text, err := os.Open(document)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(text, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	of := bom.Metadata.Component
	if of.Version != "v9.8.7+next" ||
		of.PackageURL != "pkg:golang/github.com/lumenhook/lumenhook@v9.8.7%2Bnext" {
		t.Errorf("the list is of %s, version %s", of.PackageURL, of.Version)
	}
	found := make(map[string]cdx.Component)
	for _, c := range *bom.Components {
		found[c.Name] = c
	}
	library := found["github.com/CycloneDX/cyclonedx-go"]
	if !strings.HasPrefix(library.PackageURL, "pkg:golang/github.com/CycloneDX/cyclonedx-go@v") ||
		!strings.HasPrefix((*library.Properties)[0].Value, "h1:") || found["std"].Version == "" {
		t.Errorf("modules: %+v", found)
	}
	// SHA-256 of "free".
	const sum = "ad95d5fa651ba86d8923fe1238d24a4f1988a752acfe426ac72ac7c04471bc17"
	if license := found["LICENSE"]; len(*license.Hashes) != 1 || (*license.Hashes)[0].Value != sum {
		t.Errorf("the file is %+v", license)
	}
}

func TestAnArchiveThatIsNoReleaseIsRefused(t *testing.T) {
	program := thisProgram(t)
	for want, files := range map[string]map[string][]byte{
		"holds no Go program": {"LICENSE": []byte("free")},
		"is a second program": {"a": program, "b": program},
	} {
		err := run("v1.0.0", packed(t, files), filepath.Join(t.TempDir(), "list.json"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and should say %q", err, want)
		}
	}
}
