package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"
)

// HealthFlags select the process to check, and what.
type HealthFlags struct {
	Process
	alive bool
}

// Register adds the flags. Their defaults are read from the files of `lumenhook serve`.
func (h *HealthFlags) Register(f *pflag.FlagSet) {
	h.Process.Register(f)
	f.BoolVar(&h.alive, "alive", false, "ask whether the process answers (/healthz), "+
		"and not whether its parts do their work")
}

// Health is a process's report of its health.
type Health struct {
	URL    string       `json:"url"` // that was requested
	Status string       `json:"status"`
	Checks []HealthPart `json:"checks"`
	well   bool
}

// HealthPart is the report of a part.
type HealthPart struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

const partIsWell = "ok"

// Fault returns which parts are unhealthy, and why; nil if all are healthy.
func (h Health) Fault() error {
	if h.well {
		return nil
	}
	var parts []string
	for _, c := range h.Checks {
		if c.Status != partIsWell {
			parts = append(parts, c.Name+": "+c.Detail)
		}
	}
	return fmt.Errorf("the process is %s: %s", h.Status, strings.Join(parts, "; "))
}

// Ask requests the health. An error means that no process of ours answered.
func (h *HealthFlags) Ask(ctx context.Context) (health Health, err error) {
	path := "/readyz"
	if h.alive {
		path = "/healthz"
	}
	said, err := h.ask(ctx, path)
	if err != nil {
		return health, err
	}
	health.well = said.status == http.StatusOK
	known := health.well || said.status == http.StatusServiceUnavailable
	if !known || json.Unmarshal(said.body, &health) != nil || health.Status == "" {
		return health, said.strange()
	}
	health.URL = said.url
	return health, nil
}
