package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The name of a package at the start of an error is removed, wherever it occurs; what only
// looks like one stays.
func TestNamesOfPackagesAreNotTold(t *testing.T) {
	inner := errors.New("directory: it is behind")
	for _, c := range []struct {
		err  error
		want string
	}{
		{
			fmt.Errorf("reaching it: %w", fmt.Errorf("streams: opening a client: %w", inner)),
			"reaching it: opening a client: it is behind",
		},
		{errors.Join(inner, errors.New("streams: closed")), "it is behind\nclosed"},
		{
			errors.New("lumenhook.yaml: egress: must be a mapping"),
			"lumenhook.yaml: egress: must be a mapping",
		},
	} {
		if got := withoutPackages(c.err); got != c.want {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}

// The list contains every package of the module whose errors begin with its name.
func TestEveryPackageOfErrorsIsKnown(t *testing.T) {
	begins := regexp.MustCompile("(?:errors\\.New|fmt\\.Errorf)\\([\"`]([a-z]+): ")
	clause := regexp.MustCompile(`(?m)^package (\w+)$`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := string(clause.FindSubmatch(text)[1])
		for _, found := range begins.FindAllSubmatch(text, -1) {
			if string(found[1]) == name && !slices.Contains(packages, name) {
				t.Errorf("%s: errors of package %s begin with its name, which is told to people", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Brokers that close the connection are distinguished from other servers that do, though
// both commands have flags for brokers.
func TestOnlyBrokersAreAskedForALogin(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.StringSlice("kafka-brokers", nil, "")
	for name, c := range map[string]struct {
		err    error
		advice bool
	}{
		"a broker":   {fmt.Errorf("asking: %w", &kgo.ErrFirstReadEOF{}), true},
		"a login":    {fmt.Errorf("asking: %w", kerr.SaslAuthenticationFailed), true},
		"ClickHouse": {fmt.Errorf("comparing: read: %w", io.EOF), false},
	} {
		if got := Explain(c.err, flags); strings.Contains(got, "--kafka-user") != c.advice {
			t.Errorf("%s: advice %t is wanted, and it was told %q", name, c.advice, got)
		}
	}
}
