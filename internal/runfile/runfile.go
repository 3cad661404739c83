package runfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Name is the name of the file in the data folder.
const Name = "run.json"

// ErrNoFolder is the error for an empty --data-dir, which would otherwise mean the current folder.
var ErrNoFolder = errors.New("must name a folder, such as .lumenhook")

// File is run.json. It describes how to connect to a running service.
type File struct {
	APIURL       string      `json:"apiUrl"`
	APIKey       string      `json:"apiKey"`
	APIKeyID     string      `json:"apiKeyId"`
	AccountID    string      `json:"accountId"`
	KafkaBrokers []string    `json:"kafkaBrokers"`
	Kafka        Kafka       `json:"kafka"`
	ClickHouse   *ClickHouse `json:"clickhouse"`
	NoHistory    string      `json:"noHistory,omitempty"` // why there is no ClickHouse yet
	Stellar      Stellar     `json:"stellar"`
	Receiver     *Receiver   `json:"receiver"`
	CAFile       string      `json:"caFile"`
	EgressPorts  string      `json:"egressPorts"`
	MetricsURL   string      `json:"metricsUrl,omitempty"`
	PID          int         `json:"pid"`
	// Settings are the values of the flags that are set, however they were set.
	Settings map[string][]string `json:"settings,omitempty"`
}

// ClickHouse describes how to connect to the history.
type ClickHouse struct {
	Native   string `json:"native"`
	HTTP     string `json:"http"`
	Database string `json:"database"`
	Login           // can write to the database
	Reader   Login  `json:"reader"` // can only read it
}

// DSN returns the DSN of the history for one of its logins.
func (c *ClickHouse) DSN(as Login) string {
	u := url.URL{
		Scheme: "clickhouse",
		User:   url.UserPassword(as.User, as.Password),
		Host:   c.Native,
		Path:   "/" + c.Database,
	}
	return u.String()
}

// Stellar describes the network that the service follows.
type Stellar struct {
	RPCURL            string `json:"rpcUrl,omitempty"`
	NetworkPassphrase string `json:"networkPassphrase"`
	FriendbotURL      string `json:"friendbotUrl,omitempty"` // of a devnet
}

// Receiver is the demo receiver.
type Receiver struct {
	URL string `json:"url"`
}

// Login is a user name and a password.
type Login struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// Kafka is the login for the broker.
type Kafka struct {
	Mechanism string `json:"mechanism"`
	Login
}

// SASL returns the login in the form that clients use.
func (k Kafka) SASL() kafka.SASL {
	return kafka.SASL{Mechanism: k.Mechanism, User: k.User, Password: k.Password}
}

// Read returns the run.json of the service that is running in the data folder.
func Read(dir string) (File, error) {
	var r File
	if dir == "" {
		return r, fmt.Errorf("--data-dir %q: %w", dir, ErrNoFolder)
	}
	data, err := os.ReadFile(filepath.Join(dir, Name))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return r, whyNotRunning(dir)
	case errors.Is(err, os.ErrPermission):
		return r, othersFolder(err)
	case err != nil:
		return r, fmt.Errorf("--data-dir: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("reading %s: %w", filepath.Join(dir, Name), err)
	}
	if !alive(r.PID) {
		return r, fmt.Errorf("the service of %s has ended without being stopped: %s", dir,
			startAgain(dir))
	}
	return r, nil
}

// HasRun reports whether `lumenhook run` was ever started in the folder.
func HasRun(dir string) bool {
	_, err := os.Stat((&Folder{path: dir}).APIKeyPath())
	return err == nil
}

func othersFolder(err error) error {
	return fmt.Errorf("%w: the data folder belongs to another user; run this as that user", err)
}

func whyNotRunning(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, lockName))
	var owner int
	_, _ = fmt.Sscan(string(text), &owner) // nothing if it is empty
	_, waits, _ := strings.Cut(string(text), "\n")
	switch {
	case errors.Is(err, os.ErrPermission):
		return othersFolder(err)
	case err == nil && owner > 0 && alive(owner):
		return fmt.Errorf("the service of %s is starting or stopping (process %d)%s%s: %s", dir, owner,
			after("; not ready: ", waits), lastFailure(dir), tryAgain(dir))
	case IsPackaged(dir):
		return fmt.Errorf("the service of %s is not running%s: %s", dir, lastFailure(dir),
			startAgain(dir))
	case err == nil:
		return fmt.Errorf("the service of %s has been stopped%s: %s", dir, lastFailure(dir),
			startAgain(dir))
	}
	where, err := filepath.Abs(dir)
	if err != nil {
		where = dir
	}
	if _, err := os.Stat(packaged); err == nil {
		return fmt.Errorf("no service has run in %s; set --data-dir or LUMENHOOK_DATA_DIR to %s, the "+
			"folder of the package's service", where, packaged)
	}
	return fmt.Errorf("no service has run in %s; start one with `lumenhook run --data-dir %s`, "+
		"or set --data-dir to its folder", where, dir)
}

// lastFailure returns why the last start failed, or why the service ended.
func lastFailure(dir string) string {
	why, err := os.ReadFile(filepath.Join(dir, failureName))
	if err != nil {
		return ""
	}
	return after("; it failed before: ", string(why))
}

func after(words, text string) string {
	if text == "" {
		return ""
	}
	return words + text
}

func tryAgain(dir string) string {
	if IsPackaged(dir) {
		return "`journalctl -u lumenhook` shows its log"
	}
	return "try again once it is ready"
}

// packaged is the data folder of the package's unit.
var packaged = "/var/lib/lumenhook" // tests change it

// IsPackaged reports whether the package's unit runs a folder's service.
func IsPackaged(dir string) bool { return filepath.Clean(dir) == packaged }

func startAgain(dir string) string {
	if IsPackaged(dir) {
		return "start it with `systemctl start lumenhook`; `journalctl -u lumenhook` shows why it ended"
	}
	return fmt.Sprintf("start it again with `lumenhook run --data-dir %s`", dir)
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
