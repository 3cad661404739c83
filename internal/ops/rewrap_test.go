package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestTheReportOfARewrap(t *testing.T) {
	found := rewrapTally{
		endpoints: 3,
		secrets:   RewrapCounts{Resealed: 4, AlreadyNew: 5},
		headers:   RewrapCounts{Unopened: 1},
		byKey:     map[uint32]int{2: 7, 3: 1, 9: 1},
	}
	list := []keys.MasterKey{{ID: 1}, {ID: 2}, {ID: 3, Seals: true}, {ID: 4, Staged: true}}
	report := rewrapReportOf(found, 3, list)
	want := []KeyUse{
		{"0000000001", "opens", 0, true},
		{"0000000002", "opens", 7, false},
		{"0000000003", "seals", 1, false},
		{"0000000004", "staged", 0, false},
		{"0000000009", "missing", 1, false},
	}
	if !slices.Equal(report.Keys, want) {
		t.Errorf("%+v", report.Keys)
	}
	var text bytes.Buffer
	if err := (&cli.Output{}).Print(&text, report, report.Show); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"OF 3 ENDPOINTS", "signing secrets", "0000000001",
		"lumenhook secrets drop 0000000001", "nothing opens them",
	} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("%q is not in\n%s", part, &text)
		}
	}
	for _, inUse := range []string{"drop 0000000002", "drop 0000000009"} {
		if strings.Contains(text.String(), inUse) {
			t.Errorf("a key in use is offered\n%s", &text)
		}
	}
	data, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(data), `"alreadyNew":5`) {
		t.Errorf("%s, %v", data, err)
	}
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "1 values open with no key") {
		t.Errorf("what nothing opens is told as %v", err)
	}
}

// A key must not be dropped while a command that no engine has processed yet needs it: the
// command's values are in no table yet, but will be.
func TestDropLooksAtCommandsThatWait(t *testing.T) {
	cluster := newCluster(t)
	path := filepath.Join(t.TempDir(), "key")
	sealer, err := keys.LoadOrCreateSealer(path)
	if err != nil {
		t.Fatal(err)
	}
	old := appendCommands(t, cluster, sealer)
	if _, err := keys.RotateMasterFile(path, false); err != nil {
		t.Fatal(err)
	}
	cfg := RewrapConfig{
		Key:      keys.MasterKeyPlace{File: path},
		Cluster:  func() (kafka.Cluster, error) { return cluster, nil },
		Progress: func(int64, int64) {},
		Logger:   cluster.Logger,
	}
	w, err := cfg.open(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.inUse(t.Context(), old); n != 5 || err != nil {
		t.Fatalf("%d values wait (%v), not 5", n, err)
	}
	_, _, err = DropKey(t.Context(), cfg, old)
	if err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("a key that commands need was dropped: %v", err)
	}
	// Now the engine has processed all of them.
	_, ends, err := w.cluster.Extent(t.Context(), schemas.TopicCommands)
	if err != nil {
		t.Fatal(err)
	}
	var decided kadm.Offsets
	for p, end := range ends {
		decided.AddOffset(cluster.Prefix+schemas.TopicCommands, p, end, -1)
	}
	err = cluster.WithAdmin(t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		return admin.CommitAllOffsets(ctx, cluster.Prefix+engineGroup, decided)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.inUse(t.Context(), old); n != 0 || err != nil {
		t.Errorf("%d values wait (%v)", n, err)
	}
}

func newCluster(t *testing.T) kafka.Cluster {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cluster := kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "lumenhook.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}
	err = cluster.EnsureTopics(t.Context(), []kafka.TopicSpec{
		{Name: schemas.TopicCommands, Partitions: 2, ReplicationFactor: 1},
		{Name: schemas.TopicEndpoints, Partitions: 2, ReplicationFactor: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// appendCommands appends one command of each kind with sealed values, five values in all, and one
// command without. It returns the key that sealed them.
func appendCommands(t *testing.T, cluster kafka.Cluster, sealer *keys.Sealer) uint32 {
	t.Helper()
	seal := func() []byte {
		sealed, err := sealer.Seal([]byte("x"), "ep_1")
		if err != nil {
			t.Fatal(err)
		}
		return sealed
	}
	producer, err := cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	headers := []domain.Header{{Name: "A", Sealed: seal()}, {Name: "kept"}}
	for _, body := range []domain.CommandBody{
		domain.CreateEndpoint{
			EndpointID:       "ep_1",
			SealedSecret:     seal(),
			EndpointSettings: domain.EndpointSettings{Headers: headers},
		},
		domain.UpdateEndpoint{EndpointID: "ep_2", Change: domain.EndpointChange{Headers: &headers}},
		domain.RotateSecret{EndpointID: "ep_3", SealedSecret: seal()},
		domain.ResealSecrets{EndpointID: "ep_4", Values: []domain.Resealed{{Sealed: seal()}}},
		domain.EnableEndpoint{EndpointID: "ep_5"},
	} {
		m := schemas.EncodeCommand(domain.Command{ID: "cmd_1", Body: body})
		r := kafka.NewRecord(schemas.TopicCommands, body.Aggregate(), m.Value, m.EachHeader)
		if err := producer.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	old, _ := keys.SealedBy(headers[0].Sealed)
	return old
}
