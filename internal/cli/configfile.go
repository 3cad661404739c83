package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const (
	configFlag  = "config"
	secretsFlag = "secrets-dir"
	// configMaxBytes bounds a configuration file, secretMaxBytes a secret.
	configMaxBytes = 1 << 20
	secretMaxBytes = 64 << 10
)

// RegisterConfig adds the flags of a command that is configured by files as well: its
// other flags can be set by a YAML file, and by a folder of secrets. A flag wins over
// its variable, that over the folder, and that over the file.
func RegisterConfig(flags *pflag.FlagSet) {
	flags.String(configFlag, "", "YAML file of settings, named as the flags are: "+
		"kafka-brokers, or brokers below kafka")
	flags.String(secretsFlag, "", "folder of secrets, one a file, named as the flags are: "+
		"kafka-password, master-key")
}

// fromFiles sets flags that were not set yet from the folder of secrets and from the
// configuration file, and returns every fault.
func fromFiles(flags settings) (faults []error) {
	if dir := flags.Lookup(secretsFlag); dir != nil && dir.Value.String() != "" {
		faults = append(faults, fromSecrets(flags, dir.Value.String())...)
	}
	if file := flags.Lookup(configFlag); file != nil && file.Value.String() != "" {
		faults = append(faults, fromConfigFile(flags, file.Value.String())...)
	}
	return faults
}

// fromSecrets reads every file of a folder as a secret. It skips the hidden ones, with
// which Kubernetes replaces all of them at once.
func fromSecrets(flags settings, dir string) (faults []error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return []error{fmt.Errorf("--%s %q: %w", secretsFlag, dir, err)}
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := fromSecret(flags, e.Name(), filepath.Join(dir, e.Name())); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// fromSecret sets the flag for the file's path if there is one, so that the file is reread
// when it changes; else the secret's own flag.
func fromSecret(flags settings, name, path string) error {
	f, knownText := flags.find(name)
	file, knownFile := flags.find(name + "-file")
	switch {
	case f != nil && isSecret(f) && f.Changed, file != nil && file.Changed:
		return nil
	case file != nil:
		return setFrom(flags.FlagSet, file, path, path)
	case knownFile, f == nil && knownText && slices.Contains(secretNames(flags), name):
		return nil
	case f == nil || !isSecret(f):
		return fmt.Errorf("%s sets nothing%s", path, DidYouMean(name, secretNames(flags), ""))
	}
	data, err := readBounded(path, secretMaxBytes)
	if err != nil {
		return err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return fmt.Errorf("%s holds nothing: write the secret into it", path)
	}
	if setFrom(flags.FlagSet, f, text, path) != nil {
		return fmt.Errorf("%s: %s", path, Form(f))
	}
	return nil
}

func secretNames(flags settings) (names []string) {
	flags.visit(func(f *pflag.Flag) {
		if name, isFile := strings.CutSuffix(f.Name, "-file"); isFile {
			names = append(names, name)
		} else if isSecret(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

func readBounded(path string, sizeMaxBytes int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, sizeMaxBytes+1))
	if err == nil && int64(len(data)) > sizeMaxBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, sizeMaxBytes)
	}
	return data, err
}

// configFile is a file that is being applied.
type configFile struct {
	path   string
	flags  settings
	seen   map[string]int // the line of each setting
	faults []error
}

func fromConfigFile(flags settings, path string) []error {
	data, err := readBounded(path, configMaxBytes)
	if err != nil {
		return []error{fmt.Errorf("--%s: %w", configFlag, err)}
	}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	if !errors.Is(decoder.Decode(new(yaml.Node)), io.EOF) {
		return []error{fmt.Errorf("%s: must be one document", path)}
	}
	c := &configFile{path: path, flags: flags, seen: make(map[string]int)}
	c.mapping("", document.Content[0])
	return c.faults
}

func (c *configFile) fault(at *yaml.Node, format string, args ...any) {
	where := c.path + ":" + strconv.Itoa(at.Line) + ": "
	c.faults = append(c.faults, fmt.Errorf(where+format, args...))
}

// mapping applies settings: what is below kafka is named kafka-…
func (c *configFile) mapping(before string, m *yaml.Node) {
	if m.Kind != yaml.MappingNode {
		c.fault(m, "must be settings, such as log-level: info")
		return
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		name := before + key.Value
		switch f, known := c.flags.find(name); {
		case value.Kind == yaml.MappingNode:
			c.mapping(name+"-", value)
		case !known || name == configFlag || name == "help" || name == helpAll:
			c.fault(key, "%s sets nothing%s", name, c.meant(name))
		case c.seen[name] > 0:
			c.fault(key, "%s was set in line %d already", name, c.seen[name])
		default:
			c.seen[name] = key.Line
			if f != nil {
				c.set(f, value)
			}
		}
	}
}

func (c *configFile) meant(name string) string {
	var names []string
	c.flags.visit(func(f *pflag.Flag) { names = append(names, f.Name) })
	return DidYouMean(name, names, "")
}

// set sets a flag's value, unless it has one that takes precedence.
func (c *configFile) set(f *pflag.Flag, value *yaml.Node) {
	if f.Changed {
		return
	}
	var err error
	origin := c.path + ":" + strconv.Itoa(value.Line)
	list, isList := f.Value.(pflag.SliceValue)
	switch {
	case value.Kind == yaml.SequenceNode && isList:
		var values []string
		if err = value.Decode(&values); err == nil {
			err = list.Replace(values)
		}
		f.Changed = true
		annotate(f, originKey, origin)
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		err = setFrom(c.flags.FlagSet, f, value.Value, origin)
	default:
		err = errors.New("no value")
	}
	if err != nil {
		c.fault(value, "%s: %s", f.Name, Form(f))
	}
}
