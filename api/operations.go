package api

import (
	"context"
	"net/http"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/schemas"
)

// checkTimeout bounds each condition of readiness.
const checkTimeout = 2 * time.Second

func (a *API) getOpenAPI(context.Context, *request) (reply, error) {
	return reply{contentType: "application/yaml", body: schemas.OpenAPI}, nil
}

// getOpenAPIJSON answers with the document as JSON.
func (a *API) getOpenAPIJSON(context.Context, *request) (reply, error) {
	return reply{body: schemas.OpenAPIJSON}, nil
}

type healthView struct {
	Status string `json:"status"`
}

// getHealth reports that the process answers, and nothing more: it must not be restarted
// because another part is down.
func (a *API) getHealth(context.Context, *request) (reply, error) {
	return reply{view: healthView{"ok"}}, nil
}

// getReadiness reports whether requests should be sent here.
func (a *API) getReadiness(ctx context.Context, _ *request) (reply, error) {
	status, view := http.StatusOK, client.Readiness{Status: "ready"}
	directory := Check{
		Name: "directory",
		Run:  func(context.Context) error { return a.Directory.Fresh() },
	}
	for _, check := range append([]Check{directory}, a.Checks...) {
		shown := client.Check{Name: check.Name, Status: "ok"}
		if err := runCheck(ctx, check); err != nil {
			shown.Status, shown.Detail = "failed", redact(err.Error())
			status, view.Status = http.StatusServiceUnavailable, "not ready"
		} else if check.Detail != nil {
			shown.Detail = redact(describeCheck(ctx, check))
		}
		view.Checks = append(view.Checks, shown)
	}
	return reply{status: status, view: view}, nil
}

func describeCheck(ctx context.Context, c Check) string {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return c.Detail(ctx)
}

func runCheck(ctx context.Context, c Check) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return c.Run(ctx)
}
