package console

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/printable"
)

type endpointFormView struct {
	form
	ID    string   // the endpoint to change; empty for a new one
	Held  []string // names of its headers, whose values are not shown
	Title string
}

// secretView shows a signing secret once.
type secretView struct {
	ID, URL string
	Secret  string // empty if it was shown before
	New     bool   // the endpoint is new, not only its secret
	Warned  []string
}

func (x *Console) endpointForm(f endpointFormView) page {
	f.Title = "New endpoint"
	if f.ID != "" {
		f.Title = "Edit endpoint"
	}
	return page{"endpoint-form", f.Title, "endpoints", f}
}

func (x *Console) newEndpoint(*visit) (page, error) {
	return x.endpointForm(endpointFormView{}), nil
}

func (x *Console) editEndpoint(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	values := textsOf(e, client.EndpointCreate{})
	f := form{Values: values, ETag: e.ETag}
	return x.endpointForm(endpointFormView{form: f, ID: e.ID, Held: headersOf(e)}), nil
}

func headersOf(e client.Endpoint) []string {
	return append(slices.Sorted(maps.Keys(e.Headers)), e.LostHeaders...)
}

func (f *form) endpoint() (e client.EndpointCreate) {
	f.read(&e)
	e.Headers = make(map[string]string)
	for _, line := range f.lines("headers") {
		name, value, found := strings.Cut(line, ":")
		if !found {
			f.fault("headers", "each line must be a name, a colon and a value")
			continue
		}
		e.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return e
}

// patch returns the change that sets an endpoint to the form's fields, and deletes the headers
// named in "remove".
func (f *form) patch(e client.EndpointCreate) client.Patch {
	headers := make(map[string]any)
	for _, name := range f.Values["remove"] {
		headers[name] = nil
	}
	for name, value := range e.Headers {
		headers[name] = value
	}
	patch := changeOf(e)
	patch["headers"] = headers
	delete(patch, "noticesTo") // not in the form
	return patch
}

func (x *Console) createEndpoint(v *visit) (string, *page, error) {
	f := v.posted()
	e := f.endpoint()
	if !f.Wrong() {
		made, err := v.api.CreateEndpoint(v.r.Context(), e, v.once())
		if err == nil {
			view := secretView{made.ID, made.URL, made.Secret, true, made.WarningDetails}
			return "", &page{"secret", "Endpoint created", "endpoints", view}, nil
		}
		if err := f.refused(err, pointersOf(e)); err != nil {
			return "", nil, err
		}
	}
	return "", v.again(x.endpointForm(endpointFormView{form: f})), nil
}

func (x *Console) updateEndpoint(v *visit) (string, *page, error) {
	f, id := v.posted(), v.r.PathValue("id")
	change := f.endpoint()
	if !f.Wrong() {
		changed, err := v.api.UpdateEndpoint(v.r.Context(), id, f.patch(change), v.once(),
			client.IfMatch(f.ETag))
		if err == nil {
			done := "changed"
			if slices.ContainsFunc(changed.Warnings, dropsHeader) {
				done = "moved"
			}
			return v.endpointPath(done), nil, nil
		}
		if err := f.refused(err, pointersOf(change)); err != nil {
			return "", nil, err
		}
	}
	e, err := v.api.GetEndpoint(v.r.Context(), id)
	again := endpointFormView{form: f, ID: id, Held: headersOf(e)}
	return "", v.again(x.endpointForm(again)), err
}

// dropsHeader reports whether a warning says that a header was removed because the endpoint moved.
func dropsHeader(warning string) bool { return strings.HasPrefix(warning, "HEADER_DROPPED:") }

// confirmView asks the user to confirm an action that is hard or impossible to undo.
type confirmView struct {
	form
	Title, Button string
	Action, Back  string // paths
	Lines         []string
	Name          string // to be entered as confirmation; empty if a click is enough
	Danger        bool
	Section       string
}

func (c confirmView) page() page { return page{"confirm", c.Title, c.Section, c} }

// confirmed reports whether the user has entered the name. If not, it adds an error to the form.
func (v *visit) confirmed(c *confirmView) bool {
	c.form = v.posted()
	if name := c.text("name"); name == c.Name || name == printable.Text(c.Name) {
		return true
	}
	c.fault("name", "The name does not match. Enter it as shown above.")
	return false
}

func (x *Console) endpointToDelete(v *visit) (confirmView, error) {
	id := v.r.PathValue("id")
	e, err := v.api.GetEndpoint(v.r.Context(), id)
	if err != nil {
		return confirmView{}, err
	}
	left, err := v.api.ListWatches(v.r.Context(), client.WatchFilter{EndpointID: id},
		client.Page{Limit: leftWatchesShown})
	at := x.at + "/endpoints/" + url.PathEscape(e.ID)
	return confirmView{
		Title: "Delete endpoint", Button: "Delete permanently", Action: at + "/delete", Back: at,
		Lines: append(leftWatches(left),
			"Its pending deliveries are cancelled, and nothing more is sent to it.",
			"Its events and their attempts stay in the history.",
		),
		Name: e.URL, Danger: true, Section: "endpoints",
	}, err
}

const leftWatchesShown = 20

func leftWatches(left client.List[client.Watch]) (lines []string) {
	if len(left.Data) == 0 {
		return []string{"No watches use this endpoint."}
	}
	lines = append(lines, "These watches will have no endpoint. New payments that match them are "+
		"delivered once you assign another endpoint.")
	for _, w := range left.Data {
		lines = append(lines, strings.TrimSpace(w.Label+" "+w.ID))
	}
	if left.NextCursor != nil {
		lines = append(lines, "and more")
	}
	return lines
}

func asking(toDelete func(*visit) (confirmView, error)) pageHandler {
	return func(v *visit) (page, error) {
		c, err := toDelete(v)
		return c.page(), err
	}
}

// deleting returns the handler that deletes an object after its name was entered, and redirects to
// the list.
func (x *Console) deleting(
	toDelete func(*visit) (confirmView, error), remove func(*visit, string) error,
) formHandler {
	return func(v *visit) (string, *page, error) {
		c, err := toDelete(v)
		if err != nil {
			return "", nil, err
		}
		if !v.confirmed(&c) {
			return "", v.again(c.page()), nil
		}
		return x.at + "/" + c.Section + "?done=deleted", nil, remove(v, v.r.PathValue("id"))
	}
}

func deleteEndpoint(v *visit, id string) error {
	_, err := v.api.DeleteEndpoint(v.r.Context(), id, v.once())
	return err
}

func deleteWatch(v *visit, id string) error {
	return v.api.DeleteWatch(v.r.Context(), id, v.once())
}

func (x *Console) confirmRotation(v *visit) (page, error) {
	e, err := v.api.GetEndpoint(v.r.Context(), v.r.PathValue("id"))
	at := x.at + "/endpoints/" + url.PathEscape(e.ID)
	return confirmView{
		Title: "Rotate secret", Button: "Rotate secret", Action: at + "/rotate", Back: at,
		Lines: []string{
			"This creates a new signing secret, which is shown only once.",
			"For 24 hours, deliveries are signed with both secrets, so your receiver can switch.",
		},
		Section: "endpoints",
	}.page(), err
}

func (x *Console) rotateSecret(v *visit) (string, *page, error) {
	e, err := v.api.RotateSecret(v.r.Context(), v.r.PathValue("id"), v.once())
	view := secretView{ID: e.ID, URL: e.URL, Secret: e.Secret}
	return "", &page{"secret", "New secret", "endpoints", view}, err
}
