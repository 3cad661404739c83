package api

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/schemas"
)

const checkTimeout = 2 * time.Second

func (a *API) getOpenAPI(context.Context, *request) (reply, error) {
	return reply{contentType: "application/yaml", body: schemas.OpenAPI}, nil
}

func (a *API) getOpenAPIJSON(context.Context, *request) (reply, error) {
	return reply{body: schemas.OpenAPIJSON}, nil
}

type healthView struct {
	Status string `json:"status"`
}

// getHealth reports only that the process responds. A process must not be restarted because another
// part is down.
func (a *API) getHealth(context.Context, *request) (reply, error) {
	return reply{view: healthView{"ok"}}, nil
}

func (a *API) getReadiness(ctx context.Context, _ *request) (reply, error) {
	status, view := http.StatusOK, client.Readiness{Status: "ready"}
	directory := Check{
		Name: "directory",
		Run:  func(context.Context) error { return a.Directory.Fresh() },
	}
	for _, check := range append([]Check{directory}, a.Checks...) {
		shown := runCheck(ctx, check)
		if shown.Status != "ok" {
			status, view.Status = http.StatusServiceUnavailable, "not ready"
		}
		view.Checks = append(view.Checks, shown)
	}
	return reply{status: status, view: view}, nil
}

func runCheck(ctx context.Context, c Check) client.Check {
	shown := client.Check{Name: c.Name, Status: "ok"}
	running, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := c.Run(running); err != nil {
		shown.Status, shown.Detail = "failed", redact(err.Error())
	} else if c.Detail != nil {
		describing, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		shown.Detail = redact(c.Detail(describing))
	}
	return shown
}

// docsPolicy allows the page's own scripts, styles and requests ("Try it"). Redoc adds an empty
// style sheet and one with a fixed text, and searches in a worker.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' " +
	"'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' " +
	"'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='; img-src data:; connect-src 'self'; " +
	"worker-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// docsFiles is the path pattern of the files that the page loads.
const docsFiles = `/docs/{file:(?:openapi|redoc|reference)\.js|reference\.css}`

func toDocs(context.Context, *request) (reply, error) {
	return reply{status: http.StatusTemporaryRedirect, location: "/docs"}, nil
}

func (a *API) getVectors(context.Context, *request) (reply, error) {
	return reply{body: schemas.SignatureVectors}, nil
}

// getDocs shows openapi.yaml to people: the page, or a file that it loads. It copies no file:
// strangers, who may read slowly, would fill the memory with copies.
func (a *API) getDocs(_ context.Context, r *request) (reply, error) {
	answer := reply{contentType: "text/html; charset=utf-8", policy: docsPolicy}
	file := mux.Vars(r.http)["file"]
	switch path.Ext(file) {
	case "":
		file = "../docs.html"
	case ".js":
		answer.contentType = "text/javascript; charset=utf-8"
	case ".css":
		answer.contentType = "text/css; charset=utf-8"
	}
	answer.stream = func(w *bufio.Writer) error {
		if file == "openapi.js" {
			_, _ = w.WriteString("const openapi = ") // it keeps its first error
			_, _ = w.Write(schemas.OpenAPIJSON)
			return nil
		}
		f, err := schemas.Docs.Open(path.Join("docs", file))
		if err == nil {
			_, err = io.Copy(w, f)
		}
		return err
	}
	return answer, nil
}
