package standalone

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Topics is the broker of a data folder: that of the running service, or one that was started for
// this purpose.
type Topics struct {
	Cluster kafka.Cluster
	Running bool // a service runs there, and continues to write
	close   func()
}

// Close stops the broker if it was started here.
func (t *Topics) Close() { t.close() }

// OpenTopics connects to the broker of a data folder. The caller closes it.
func OpenTopics(dir string, logger *slog.Logger) (*Topics, error) {
	run, notRunning := runfile.Read(dir)
	if notRunning == nil {
		c := kafka.Cluster{
			Brokers:  run.KafkaBrokers,
			Prefix:   topicPrefix,
			ClientID: "lumenhook-cli",
			SASL:     run.Kafka.SASL(),
			Logger:   logger,
			Quiet:    true,
		}
		return &Topics{Cluster: c, Running: true, close: func() {}}, nil
	}
	if _, err := os.Stat(filepath.Join(dir, "broker")); err != nil {
		return nil, fmt.Errorf("--data-dir %s: there are no topics to copy: %w", dir, notRunning)
	}
	folder, err := runfile.Open(dir)
	if err != nil {
		return nil, err
	}
	t, err := startTopics(folder, logger)
	if err != nil {
		_ = folder.Close()
	}
	return t, err
}

func startTopics(folder *runfile.Folder, logger *slog.Logger) (*Topics, error) {
	logins, err := folder.Logins()
	if err != nil {
		return nil, err
	}
	b, err := broker.Start(broker.Config{
		Dir:      folder.Join("broker"),
		Listen:   "127.0.0.1:0",
		User:     logins.Kafka.User,
		Password: logins.Kafka.Password,
		Sync:     true, // closing it writes the service's logs
		Failed:   func(err error) { logger.Error("the broker of the data folder failed", "err", err) },
		Logger:   logger,
	})
	if err != nil {
		return nil, err
	}
	c := brokerOf(b, logins, "lumenhook-cli", logger)
	c.Quiet = true
	return &Topics{Cluster: c, close: func() { b.Close(); _ = folder.Close() }}, nil
}
