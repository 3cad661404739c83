package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const (
	configFlag     = "config"
	secretsFlag    = "secrets-dir"
	configMaxBytes = 1 << 20
	secretMaxBytes = 64 << 10
)

// RegisterConfig adds --config and --secrets-dir, which let a YAML file and a folder of secrets set
// the command's other flags.
func RegisterConfig(flags *pflag.FlagSet) {
	flags.String(configFlag, "",
		"YAML file with settings, named like flags: kafka-brokers, or brokers under kafka")
	flags.String(secretsFlag, "",
		"folder that contains one secret per file, named like flags: kafka-password, master-key")
}

// fromFiles sets the remaining flags from the secret folder, then from the config file. It returns
// all faults.
func fromFiles(flags settings) (faults []error) {
	if dir := flags.Lookup(secretsFlag); dir != nil && dir.Value.String() != "" {
		faults = append(faults, fromSecrets(flags, dir.Value.String())...)
	}
	if file := flags.Lookup(configFlag); file != nil && file.Value.String() != "" {
		faults = append(faults, fromConfigFile(flags, file.Value.String())...)
	}
	return faults
}

// fromSecrets reads each file of a folder as a secret. It skips hidden files, which Kubernetes uses
// to replace all secrets atomically.
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

// fromSecret sets the flag for the file's path if there is one, so that changes of the file are
// picked up. Otherwise it sets the secret's own flag.
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
		return fmt.Errorf("%s is empty; write the secret into it", path)
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

type configFile struct {
	path   string
	flags  settings
	seen   map[string]int // line of each setting
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

// mapping applies the settings of a mapping. Settings below kafka are named kafka-…
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
			c.fault(key, "%s was already set on line %d", name, c.seen[name])
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
	for _, owner := range c.flags.owners {
		if f := owner.Flags().Lookup(name); f != nil && isSetting(f) {
			return "; it is a setting of `" + owner.CommandPath() + "`, so check the file with that " +
				"command and --check"
		}
	}
	return DidYouMean(name, names, "")
}

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

// ShareConfig adds the flags of RegisterConfig to a command that shares another command's files. It
// uses the settings for its own flags and ignores the others. If the flags exist already, it does
// nothing.
func ShareConfig(flags *pflag.FlagSet) {
	if flags.Lookup(configFlag) != nil {
		return
	}
	flags.String(configFlag, "",
		"YAML file of lumenhook serve; this command only reads settings that it has flags for")
	flags.String(secretsFlag, "",
		"folder that contains one secret per file, named like flags; works like --config")
	annotate(flags.Lookup(configFlag), sharedKey, "true")
}

// TakesAnyConfig lets a command read the files of several other commands. It ignores settings that
// it has no flags for.
func TakesAnyConfig(flags *pflag.FlagSet) { annotate(flags.Lookup(configFlag), sharedKey, "true") }

// NotShared prevents shared files from setting a flag whose meaning differs from the files' setting
// with the same name.
func NotShared(flags *pflag.FlagSet, name string) {
	annotate(flags.Lookup(name), notSharedKey, "true")
}

type settings struct {
	*pflag.FlagSet
	shared bool
	// owners are the flags of the commands that share their files.
	owners []*cobra.Command
}

// settingsOf returns the settings of c. root contains the commands that share their files.
func settingsOf(c, root *cobra.Command) settings {
	s := settings{FlagSet: c.Flags()}
	s.shared = isShared(s.Lookup(configFlag))
	walk(root, func(other *cobra.Command) {
		if f := other.Flags().Lookup(configFlag); f != nil && !isShared(f) {
			s.owners = append(s.owners, other)
		}
	})
	return s
}

func isShared(f *pflag.Flag) bool { return f != nil && len(f.Annotations[sharedKey]) > 0 }

// find returns the flag for a setting, or nil if the command does not have it, and reports whether
// the setting exists.
func (s settings) find(name string) (f *pflag.Flag, known bool) {
	f = s.Lookup(name)
	if !s.shared {
		known = f != nil && isSetting(f)
		return f, known
	}
	known = slices.ContainsFunc(s.owners, func(owner *cobra.Command) bool {
		of := owner.Flags().Lookup(name)
		return of != nil && isSetting(of)
	})
	if !known || f != nil && len(f.Annotations[notSharedKey]) > 0 {
		f = nil
	}
	return f, known
}

func (s settings) visit(each func(*pflag.Flag)) {
	named := []*pflag.FlagSet{s.FlagSet}
	if s.shared {
		named = nil
		for _, owner := range s.owners {
			named = append(named, owner.Flags())
		}
	}
	for _, flags := range named {
		flags.VisitAll(func(f *pflag.Flag) {
			if isSetting(f) {
				each(f)
			}
		})
	}
}

const (
	// VariablePrefix is the prefix of the program's environment variables.
	VariablePrefix = "LUMENHOOK_"
	// TestVariables is the prefix of its tests' variables, which the program ignores.
	TestVariables = VariablePrefix + "TEST_"
	// activeHelp is set by cobra's completion scripts for fish and PowerShell. It has no effect
	// here, but must not be reported as unknown.
	activeHelp = VariablePrefix + "ACTIVE_HELP"
)

// Variable returns the name of the environment variable for a flag.
func Variable(flag string) string {
	return VariablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the remaining flags from environment variables, and returns an error for
// every invalid value.
func fromEnvironment(flags *pflag.FlagSet) (faults []error) {
	flags.VisitAll(func(f *pflag.Flag) {
		value, set := os.LookupEnv(Variable(f.Name))
		if !set || f.Changed || isHelp(f) {
			return
		}
		if err := setFrom(flags, f, value, Variable(f.Name)); err != nil {
			faults = append(faults, fmt.Errorf("%s=%q: %s", Variable(f.Name), value, Form(f)))
		}
	})
	return faults
}

// FromEnvironment sets the flags that were not given from environment variables.
func FromEnvironment(flags *pflag.FlagSet) error {
	return errors.Join(fromEnvironment(flags)...)
}

// unknownVariables returns an error for every variable with the program's prefix that belongs to no
// flag of any subcommand and is not in elsewhere.
func unknownVariables(root *cobra.Command, elsewhere, environment []string) (faults []error) {
	known := append(slices.Clone(elsewhere), activeHelp)
	walk(root, func(c *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known = append(known, Variable(f.Name)) })
		}
	})
	for _, entry := range slices.Sorted(slices.Values(environment)) {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, VariablePrefix) || strings.HasPrefix(name, TestVariables) ||
			slices.Contains(known, name) || ofKubernetes(name, value) {
			continue
		}
		faults = append(faults, errors.New(name+" sets nothing"+orUnset(DidYouMean(name, known, ""))))
	}
	return faults
}

func orUnset(said string) string {
	if said == "" {
		return "; unset it, or list the command's flags with --help"
	}
	return said
}

// Kubernetes sets variables for each service of the namespace in every container. A service named
// lumenhook or lumenhook-api produces variables with the program's prefix.
var (
	serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|` +
		`PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)
	serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

func ofKubernetes(name, value string) bool {
	name = "_" + strings.TrimPrefix(name, VariablePrefix)
	return serviceVariable.MatchString(name) ||
		strings.HasSuffix(name, "_PORT") && serviceAddress.MatchString(value)
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

// Annotations of flags.
const (
	originKey = "lumenhook_origin" // where the value came from; missing for the command line
	answerKey = "lumenhook_answer" // the flag only controls the output
	secretKey = "lumenhook_secret" // the value must not be shown
	// headingKey is the flag's heading in the help.
	headingKey = "lumenhook_heading"
	// rolesKey lists the roles that use the flag; empty: all.
	rolesKey = "lumenhook_roles"
	// furtherKey marks a flag that --help omits. shownKey records that --help-all was given.
	furtherKey = "lumenhook_further"
	shownKey   = "lumenhook_shown"
	// sharedKey marks --config of a command that shares another command's file. notSharedKey marks
	// a flag that such a file does not set.
	sharedKey    = "lumenhook_shared"
	notSharedKey = "lumenhook_not_shared"
)

// Secret marks flags whose values must not be shown.
func Secret(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotate(flags.Lookup(name), secretKey, "true")
	}
}

// NoSetting marks a flag that no file is meant to set.
func NoSetting(flags *pflag.FlagSet, name string) {
	annotate(flags.Lookup(name), answerKey, "true")
}

// isSetting reports whether a flag controls what the command does, not how it prints the result.
func isSetting(f *pflag.Flag) bool { return len(f.Annotations[answerKey]) == 0 }

func isSecret(f *pflag.Flag) bool { return len(f.Annotations[secretKey]) > 0 }

func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[key] = []string{value}
}

// OnCommandLine reports whether a flag was given on the command line, and not by a variable or a
// file, which other commands also read.
func OnCommandLine(flags *pflag.FlagSet, name string) bool {
	f := flags.Lookup(name)
	return f.Changed && len(f.Annotations[originKey]) == 0
}

func setFrom(flags *pflag.FlagSet, f *pflag.Flag, value, origin string) error {
	if err := flags.Set(f.Name, value); err != nil {
		return err
	}
	annotate(f, originKey, origin)
	return nil
}

// Given returns the values of the flags that are set, for Give in another command.
func Given(flags *pflag.FlagSet) map[string][]string {
	given := map[string][]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case f.Changed && isList:
			given[f.Name] = list.GetSlice()
		case f.Changed:
			given[f.Name] = []string{f.Value.String()}
		}
	})
	return given
}

// Give sets flags that are not set, to values of Given. It ignores flags that do not exist.
func Give(flags *pflag.FlagSet, given map[string][]string) error {
	var faults []error
	for name, values := range given {
		f := flags.Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		var err error
		if list, isList := f.Value.(pflag.SliceValue); isList {
			err = list.Replace(values)
		} else if len(values) == 1 {
			err = f.Value.Set(values[0])
		}
		f.Changed = true
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Setting is the effective value of a flag.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // "default", a variable, a file, or a flag
}

// originOf returns where a value was set: the name of a variable, a file, or the flag.
func originOf(f *pflag.Flag) string {
	if from := f.Annotations[originKey]; len(from) > 0 {
		return cmp.Or(from[0], "--"+f.Name)
	}
	return "--" + f.Name
}

const masked = "********"

const impliedKey = "lumenhook_implied_by"

// ImpliedBy marks a flag as true if one of the others is set.
func ImpliedBy(flags *pflag.FlagSet, name string, others ...string) {
	if err := flags.SetAnnotation(name, impliedKey, others); err != nil {
		panic(err) // the flag is not registered
	}
}

func impliedBy(flags *pflag.FlagSet, f *pflag.Flag) string {
	for _, name := range f.Annotations[impliedKey] {
		if flags.Changed(name) {
			return name
		}
	}
	return ""
}

// Effective lists the values of flags and their origins. Secrets are masked.
func Effective(flags *pflag.FlagSet) (settings []Setting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || isHelp(f) || !isSetting(f) {
			return
		}
		s := Setting{Name: f.Name, Value: f.Value.String(), From: "default"}
		if f.Changed {
			s.From = originOf(f)
		} else if by := impliedBy(flags, f); by != "" {
			s.Value, s.From = "true", by
		}
		if isSecret(f) && s.Value != "" {
			s.Value = masked
		}
		settings = append(settings, s)
	})
	return settings
}
