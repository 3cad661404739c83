package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/streams"
)

// logins are what the embedded broker and the embedded ClickHouse ask of their
// clients. They are drawn once and kept in secrets/, and may be drawn anew: take the
// file away while nothing runs.
type logins struct {
	Kafka      runKafka `json:"kafka"`
	ClickHouse runLogin `json:"clickhouse"`
	Reader     runLogin `json:"reader"`
}

// runLogin is a user and a password in run.json.
type runLogin struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

func (l runLogin) clickhouse() clickhouse.Login {
	return clickhouse.Login{User: l.User, Password: l.Password}
}

// runKafka is how to log in to the broker.
type runKafka struct {
	Mechanism string `json:"mechanism"`
	runLogin
}

func (k runKafka) sasl() streams.SASL {
	return streams.SASL{Mechanism: k.Mechanism, User: k.User, Password: k.Password}
}

// logins reads the logins of a data folder, or draws them.
func (d *dataDir) logins() (l logins, err error) {
	path := d.join("secrets", "logins.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		l = logins{
			Kafka:      runKafka{streams.SASLScramSHA256, runLogin{"lumenhook", rand.Text()}},
			ClickHouse: runLogin{"lumenhook", rand.Text()}, Reader: runLogin{"reader", rand.Text()},
		}
		if data, err = json.MarshalIndent(l, "", "  "); err == nil {
			err = writeFile(path, append(data, '\n'))
		}
		return l, err
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err == nil && (l.Kafka.Password == "" || l.ClickHouse.Password == "" || l.Reader.Password == "") {
		err = errors.New("a password is missing")
	}
	if err != nil {
		return l, fmt.Errorf("reading %s: %w; restore it, or take it away to have new ones drawn", path, err)
	}
	return l, nil
}
