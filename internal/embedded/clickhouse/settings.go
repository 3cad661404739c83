package clickhouse

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"syscall"
	"text/template"
	"time"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// Config configures an engine. Zero values mean the defaults below.
type Config struct {
	Program    Program
	DataDir    string // created if missing; contains data, log, lock and the record of the child
	NativeAddr string // default 127.0.0.1:0; must be a loopback address; port 0 picks a free one
	HTTPAddr   string // default 127.0.0.1:0; must have the host of NativeAddr
	Database   string // default "lumenhook"; created if missing
	Service    Login  // can fill the database; missing fields are generated
	Reader     Login  // can read the database; missing fields are generated
	Logger     *slog.Logger

	// NobodyHint is the response to HTTP requests without a user.
	NobodyHint string
	// Grants are the privileges of Service, each as written between GRANT and TO.
	Grants []string

	// Niceness, 0 to 19, is how far to lower the child's priority below this process's once it accepts
	// connections.
	Niceness int

	MaxMemoryBytes int64         // of the server; default 1.5 GiB; see MemoryWithin
	HealthInterval time.Duration // between pings; default 1 s
	HangAfter      time.Duration // time without a response before the child is restarted; default 15 s
	StartMax       time.Duration // for a child to accept connections; default 60 s
}

const (
	defaultDatabase   = "lumenhook"
	defaultNobodyHint = "Name a user and a password, by headers: this ClickHouse answers nobody " +
		"else."
	defaultMaxMemoryBytes = 3 << 29
	minMaxMemoryBytes     = 512 << 20
	maxNiceness           = 19 // maximum of setpriority(2)

	// codeAuthenticationFailed is ClickHouse's error code for a rejected login.
	codeAuthenticationFailed = 516
)

// MemoryWithin returns a MaxMemoryBytes that is at most the default, and at most a limit if the
// server can work with that.
func MemoryWithin(limitBytes int64) int64 {
	return max(minMaxMemoryBytes, min(defaultMaxMemoryBytes, limitBytes))
}

var (
	databaseName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)
	userName     = databaseName
)

func (c Config) complete() (Config, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if (c.Program.Binary == "") == (c.Program.Library == "") {
		fault("Program must have either Binary or Library; take it from Find")
	}
	if c.DataDir == "" {
		fault("DataDir must name a folder")
	} else if abs, err := filepath.Abs(c.DataDir); err != nil {
		fault("DataDir %s: %w", c.DataDir, err)
	} else {
		c.DataDir = abs
	}
	c.Database = cmp.Or(c.Database, defaultDatabase)
	c.NobodyHint = cmp.Or(c.NobodyHint, defaultNobodyHint)
	if !databaseName.MatchString(c.Database) {
		fault("Database %q must be 1 to 63 letters, digits or underscores and not begin with a digit",
			c.Database)
	}
	c.Service, c.Reader = c.Service.complete("lumenhook"), c.Reader.complete("reader")
	for name, l := range map[string]Login{"Service": c.Service, "Reader": c.Reader} {
		if !userName.MatchString(l.User) || l.User == localUser {
			fault("%s.User %q must be 1 to 63 letters, digits or underscores, and not %s", name, l.User,
				localUser)
		}
	}
	if c.Service.User == c.Reader.User {
		fault("Service.User and Reader.User must differ, both are %q", c.Reader.User)
	}
	if c.Niceness < 0 || c.Niceness > maxNiceness {
		fault("Niceness %d must be from 0 to %d", c.Niceness, maxNiceness)
	}
	if c.MaxMemoryBytes == 0 {
		c.MaxMemoryBytes = defaultMaxMemoryBytes
	}
	if c.MaxMemoryBytes < minMaxMemoryBytes {
		fault("MaxMemoryBytes %d is too little; the least is %d", c.MaxMemoryBytes, minMaxMemoryBytes)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		unset time.Duration
	}{
		{"HealthInterval", &c.HealthInterval, time.Second},
		{"HangAfter", &c.HangAfter, 15 * time.Second},
		{"StartMax", &c.StartMax, 60 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.unset
		}
		if *d.value < 0 {
			fault("%s %s must not be negative", d.name, *d.value)
		}
	}
	c.Logger = orDiscard(c.Logger)
	return c, errors.Join(faults...)
}

type listen struct {
	host                 string
	nativePort, httpPort int
}

func (l listen) nativeAddr() string { return net.JoinHostPort(l.host, strconv.Itoa(l.nativePort)) }
func (l listen) httpAddr() string   { return net.JoinHostPort(l.host, strconv.Itoa(l.httpPort)) }

func listenOf(native, http net.Listener) listen {
	at, other := native.Addr().(*net.TCPAddr), http.Addr().(*net.TCPAddr)
	return listen{host: at.IP.String(), nativePort: at.Port, httpPort: other.Port}
}

// innerHost returns the host on which the server listens for the gateway. On Linux, where all of
// 127.0.0.0/8 is this machine, it is an address that web pages and port scans are unlikely to find.
func innerHost(host string) string {
	if runtime.GOOS != "linux" {
		return host
	}
	var b [3]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return net.IPv4(127, b[0]&0x7f, b[1], b[2]|1).String()
}

// freeListen finds two free ports. They are no longer reserved when it returns: the server binds
// them itself, and fails if another process was faster.
func freeListen(host string) (listen, error) {
	anywhere := net.JoinHostPort(host, "0")
	native, http, err := bindAll(anywhere, anywhere)
	if err != nil {
		return listen{}, err
	}
	native.Close()
	http.Close()
	return listenOf(native, http), nil
}

func bindAll(nativeAddr, httpAddr string) (native, http net.Listener, err error) {
	if native, err = bindSetting("NativeAddr", nativeAddr); err != nil {
		return nil, nil, err
	}
	if http, err = bindSetting("HTTPAddr", httpAddr); err != nil {
		native.Close()
		return nil, nil, err
	}
	a, b := native.Addr().(*net.TCPAddr).IP, http.Addr().(*net.TCPAddr).IP
	if !a.Equal(b) {
		native.Close()
		http.Close()
		return nil, nil, fmt.Errorf("NativeAddr and HTTPAddr must be on the same host, they are on %s "+
			"and %s", a, b)
	}
	return native, http, nil
}

func bindSetting(setting, addr string) (net.Listener, error) {
	addr = cmp.Or(addr, "127.0.0.1:0")
	host, port, err := splitLoopback(setting, addr)
	if err != nil {
		return nil, err
	}
	l, err := bind(host, port)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &PortTakenError{Setting: setting, Addr: addr}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s cannot be bound: %w", setting, addr, err)
	}
	return l, nil
}

func bind(host string, port int) (net.Listener, error) {
	if port == 0 {
		return subprocess.ListenFree(host)
	}
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

func splitLoopback(setting, addr string) (host string, port int, err error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%s %q must be host:port: %w", setting, addr, err)
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsLoopback() {
		return "", 0, fmt.Errorf("%s %q must be a loopback address such as 127.0.0.1: passwords would "+
			"cross the network in the clear; to serve others run a ClickHouse of your own and pass "+
			"--clickhouse-dsn",
			setting, addr)
	}
	port, err = strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%s %q must have a port from 0 to 65535", setting, addr)
	}
	return host, port, nil
}

// serverConfig is rewritten at every start. It is tuned for a small machine:
//   - Caches are far smaller than the defaults, which assume a dedicated machine.
//   - By default, large merges wait until eight threads are free, which would never happen with two
//     merge threads. So these limits are lowered.
//   - Parts are merged when together they are ten times as large as the largest of them, instead of
//     five times. This merges a row a third less often until its part has a given size.
//   - Privileges are granted explicitly, even for sources, table engines and system tables, which
//     ClickHouse otherwise grants to everyone (users.go).
//   - ClickHouse deletes a dropped table's files once no query reads them, not 8 minutes later.
//   - Tables are loaded without their broken parts, however many there are, because the projector
//     rebuilds those from the topics.
//   - The macro is used to check that it is our child that responds on the port.
//   - HTTP requests without a user get a hint. As the local user, they would be rejected anyway,
//     with a 500 and a message about sessions. The user must be in headers, because a rule cannot
//     see parameters, and passwords in URLs end up in logs. The challenge uses a scheme that
//     browsers don't know: a browser that stored the password would also send it when other sites'
//     pages make requests.
var serverConfig = parseXML("config", `<clickhouse>
  <path>{{x .Path}}</path>
  <tmp_path>{{x .Path}}tmp/</tmp_path>
  <listen_host>{{x .Listen.Host}}</listen_host>
  <tcp_port>{{.Listen.Native}}</tcp_port>
  <http_port>{{.Listen.HTTP}}</http_port>
  <timezone>UTC</timezone>
  <users_config>{{x .UsersPath}}</users_config>
  <http_handlers>
    <rule>
      <url>/</url>
      <headers><Authorization></Authorization><X-ClickHouse-User></X-ClickHouse-User></headers>
      <handler>
        <type>static</type>
        <status>401</status>
        <content_type>text/plain; charset=UTF-8</content_type>
        <http_response_headers>
          <WWW-Authenticate>X-ClickHouse-User realm="{{x .Database}}"</WWW-Authenticate>
          <X-ClickHouse-Exception-Code>{{.Unauthenticated}}</X-ClickHouse-Exception-Code>
        </http_response_headers>
        <response_content>{{x .NobodyHint}}&#10;</response_content>
      </handler>
    </rule>
    <defaults/>
  </http_handlers>
  <custom_local_disks_base_directory>{{x .Path}}disks/</custom_local_disks_base_directory>
  <access_control_improvements>
    <enable_read_write_grants>true</enable_read_write_grants>
    <select_from_system_db_requires_grant>true</select_from_system_db_requires_grant>
    <select_from_information_schema_requires_grant>true</select_from_information_schema_requires_grant>
    <users_without_row_policies_can_read_rows>true</users_without_row_policies_can_read_rows>
    <settings_constraints_replace_previous>true</settings_constraints_replace_previous>
    <table_engines_require_grant>true</table_engines_require_grant>
  </access_control_improvements>
  <logger><log>{{x .LogPath}}</log><size>4M</size><count>1</count></logger>
  <macros><lumenhook>{{x .Token}}</lumenhook></macros>
  <max_server_memory_usage>{{.MaxMemoryBytes}}</max_server_memory_usage>
  <database_atomic_delay_before_drop_table_sec>1</database_atomic_delay_before_drop_table_sec>
  <max_connections>256</max_connections>
  <max_concurrent_queries>64</max_concurrent_queries>
  <max_thread_pool_size>512</max_thread_pool_size>
  <background_pool_size>2</background_pool_size>
  <background_schedule_pool_size>4</background_schedule_pool_size>
  <mark_cache_size>67108864</mark_cache_size>
  <primary_index_cache_size>67108864</primary_index_cache_size>
  <index_mark_cache_size>16777216</index_mark_cache_size>
  <merge_tree>
    <max_suspicious_broken_parts>1000000</max_suspicious_broken_parts>
    <max_suspicious_broken_parts_bytes>1000000000000000</max_suspicious_broken_parts_bytes>
    <merge_selector_base>10</merge_selector_base>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>1</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>1</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>1</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`)

// parseXML parses a template of a configuration file. In it, the function x escapes text.
func parseXML(name, text string) *template.Template {
	return template.Must(template.New(name).Funcs(template.FuncMap{"x": escapeXML}).Parse(text))
}

func escapeXML(s string) (string, error) {
	var b bytes.Buffer
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}

// folder is a data folder. Its methods return paths.
type folder string

func (f folder) data() string {
	return filepath.Join(string(f), "data") +
		string(filepath.Separator)
}
func (f folder) config() string { return filepath.Join(string(f), "config.xml") }
func (f folder) users() string  { return filepath.Join(string(f), "users.xml") }
func (f folder) log() string    { return filepath.Join(string(f), "engine.log") }
func (f folder) record() string { return filepath.Join(string(f), "engine.json") }
func (f folder) lock() string   { return filepath.Join(string(f), "engine.lock") }

func writeServerConfig(f folder, l listen, token string, cfg Config) error {
	var values struct {
		Path, LogPath, UsersPath, Token string
		Database, NobodyHint            string
		Unauthenticated                 int
		Listen                          struct {
			Host         string
			Native, HTTP int
		}
		MaxMemoryBytes int64
	}
	values.Path, values.LogPath, values.UsersPath, values.Token = f.data(), f.log(), f.users(), token
	values.Listen.Host, values.Listen.Native, values.Listen.HTTP = l.host, l.nativePort, l.httpPort
	values.MaxMemoryBytes = cfg.MaxMemoryBytes
	values.Database, values.NobodyHint = cfg.Database, cfg.NobodyHint
	values.Unauthenticated = codeAuthenticationFailed
	if err := os.MkdirAll(f.data(), 0o700); err != nil {
		return fmt.Errorf("making the ClickHouse engine's data folder: %w", err)
	}
	err := writeTemplate(f.users(), usersConfig, usersOf(cfg))
	if err == nil {
		err = writeTemplate(f.config(), serverConfig, values)
	}
	if err != nil {
		return fmt.Errorf("writing the ClickHouse engine's configuration: %w", err)
	}
	return nil
}

func writeTemplate(path string, t *template.Template, values any) error {
	var b bytes.Buffer
	if err := t.Execute(&b, values); err != nil {
		return err
	}
	return writeFileAtomic(path, b.Bytes(), 0o600)
}
