package ingress_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/ingress"
	"github.com/lumenhook/lumenhook/internal/testkit/openapicheck"
)

type request map[string]string

func answer(t *testing.T, c ingress.Guard, in request) *httptest.ResponseRecorder {
	t.Helper()
	method := in["Method"]
	if method == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequest(method, "/x", strings.NewReader("body"))
	r.Host = in["Host"]
	for name, value := range in {
		if name != "Method" && name != "Host" {
			r.Header.Set(name, value)
		}
	}
	out := httptest.NewRecorder()
	c.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("let in"))
	})).ServeHTTP(out, r)
	if letIn := out.Body.String() == "let in"; letIn != (out.Code == http.StatusOK) {
		t.Errorf("%v: %d %s", in, out.Code, out.Body)
	}
	return out
}

const (
	loopback = "127.0.0.1:8080"
	public   = "0.0.0.0:8080"
)

func TestWhoIsLetIn(t *testing.T) {
	hosts, origins := []string{"Hooks.example.com"}, []string{"http://localhost:3000"}
	for _, c := range []struct {
		name string
		of   ingress.Guard
		in   request
		want int
	}{
		{
			"a program by address", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080"}, 200,
		},
		{"a program by IPv6", ingress.Guard{Listen: "[::1]:8080"}, request{"Host": "[::1]:8080"}, 200},
		{
			"a program by localhost", ingress.Guard{Listen: loopback},
			request{"Host": "LOCALHOST.:8080"}, 200,
		},
		{
			"a program by the name it listens on", ingress.Guard{Listen: "box.lan:8080"},
			request{"Host": "box.lan:8080"}, 200,
		},
		{
			"a name that was rebound", ingress.Guard{Listen: loopback},
			request{"Host": "evil.test:8080"}, 421,
		},
		{
			"a name that was rebound, same origin", ingress.Guard{Listen: loopback},
			request{"Host": "evil.test", "Origin": "http://evil.test", "Sec-Fetch-Site": "same-origin"},
			421,
		},
		{
			"a name that begins as an address", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1.evil.test:8080"}, 421,
		},
		{
			"a name that ends as ours", ingress.Guard{Listen: loopback},
			request{"Host": "notlocalhost:8080"}, 421,
		},
		{
			"a name below localhost", ingress.Guard{Listen: loopback},
			request{"Host": "evil.localhost:8080"}, 421,
		},
		{"no Host", ingress.Guard{Listen: loopback}, request{}, 421},
		{
			"a name of a public address", ingress.Guard{Listen: public},
			request{"Host": "hooks.lan:8080"}, 200,
		},
		{
			"another name than those given", ingress.Guard{Listen: public, Hosts: hosts},
			request{"Host": "evil.test"}, 421,
		},
		{
			"a name that was given", ingress.Guard{Listen: loopback, Hosts: hosts},
			request{"Host": "hooks.example.com"}, 200,
		},
		{
			"its page through a proxy that keeps Host",
			ingress.Guard{Listen: loopback, Hosts: hosts},
			request{"Host": "hooks.example.com", "Origin": "https://hooks.example.com"}, 200,
		},
		{
			"its page through a proxy that changes Host",
			ingress.Guard{Listen: loopback, Hosts: hosts},
			request{"Host": "127.0.0.1:8080", "Origin": "https://hooks.example.com"}, 200,
		},

		{
			"a page of its own", ingress.Guard{Listen: loopback},
			request{
				"Host":           "127.0.0.1:8080",
				"Method":         "POST",
				"Origin":         "http://127.0.0.1:8080",
				"Sec-Fetch-Site": "same-origin",
			},
			200,
		},
		{
			"a page of another port", ingress.Guard{Listen: loopback},
			request{
				"Host":           "127.0.0.1:8080",
				"Method":         "POST",
				"Origin":         "http://127.0.0.1:3000",
				"Sec-Fetch-Site": "same-site",
			},
			403,
		},
		{
			"a page of another name of this machine", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Origin": "http://localhost:8080"}, 403,
		},
		{
			"another site's page", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Method": "POST", "Origin": "https://evil.test"},
			403,
		},
		{
			"a page without an origin", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Origin": "null"}, 403,
		},
		{
			"an origin that cannot be read", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Origin": "http://%zz"}, 403,
		},
		{
			"a GET without an origin", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
			403,
		},
		{
			"a GET of another port", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "same-site"}, 403,
		},
		{
			"a preflight", ingress.Guard{Listen: loopback},
			request{
				"Host":                          "127.0.0.1:8080",
				"Method":                        "OPTIONS",
				"Origin":                        "https://evil.test",
				"Access-Control-Request-Method": "POST",
			},
			403,
		},
		{
			"a WebSocket", ingress.Guard{Listen: loopback},
			request{
				"Host":       "127.0.0.1:8080",
				"Origin":     "https://evil.test",
				"Upgrade":    "websocket",
				"Connection": "Upgrade",
			},
			403,
		},
		{
			"an address that was typed", ingress.Guard{Listen: loopback},
			request{"Host": "127.0.0.1:8080", "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
			200,
		},
		{
			"a link", ingress.Guard{Listen: loopback},
			request{
				"Host":           "127.0.0.1:8080",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document",
			},
			403,
		},
		{
			"a link where links are let in", ingress.Guard{Listen: loopback, Links: true},
			request{
				"Host":           "127.0.0.1:8080",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document",
			},
			200,
		},
		{
			"a frame", ingress.Guard{Listen: loopback, Links: true},
			request{
				"Host":           "127.0.0.1:8080",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "iframe",
			},
			403,
		},
		{
			"a frame of what may be framed", ingress.Guard{Listen: loopback, Framed: "/x"},
			request{
				"Host":           "127.0.0.1:8080",
				"Sec-Fetch-Site": "same-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "iframe",
			},
			200,
		},
		{
			"a frame of what begins alike", ingress.Guard{Listen: loopback, Framed: "/"},
			request{
				"Host":           "127.0.0.1:8080",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "iframe",
			},
			403,
		},
		{
			"a form into a frame", ingress.Guard{Listen: loopback, Framed: "/x"},
			request{
				"Host":           "127.0.0.1:8080",
				"Method":         "POST",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "iframe",
			},
			403,
		},
		{
			"what may be framed, by a script", ingress.Guard{Listen: loopback, Framed: "/x"},
			request{
				"Host":           "127.0.0.1:8080",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "no-cors",
				"Sec-Fetch-Dest": "empty",
			},
			403,
		},
		{
			"a form", ingress.Guard{Listen: loopback, Links: true},
			request{
				"Host":           "127.0.0.1:8080",
				"Method":         "POST",
				"Sec-Fetch-Site": "cross-site",
				"Sec-Fetch-Mode": "navigate",
				"Sec-Fetch-Dest": "document",
			},
			403,
		},

		{
			"an origin that was given", ingress.Guard{Listen: loopback, Origins: origins},
			request{
				"Host":           "127.0.0.1:8080",
				"Method":         "POST",
				"Origin":         "http://localhost:3000",
				"Sec-Fetch-Site": "cross-site",
			},
			200,
		},
		{
			"its preflight", ingress.Guard{Listen: loopback, Origins: origins},
			request{
				"Host":                          "127.0.0.1:8080",
				"Method":                        "OPTIONS",
				"Origin":                        "http://localhost:3000",
				"Access-Control-Request-Method": "POST",
			},
			204,
		},
		{
			"another port of it", ingress.Guard{Listen: loopback, Origins: origins},
			request{"Host": "127.0.0.1:8080", "Origin": "http://localhost:3001"}, 403,
		},
	} {
		out := answer(t, c.of, c.in)
		if out.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, out.Code, c.want)
		}
		shared := out.Header().Get("Access-Control-Allow-Origin")
		if given := len(c.of.Origins) > 0 && c.in["Origin"] == c.of.Origins[0]; (shared != "") != given {
			t.Errorf("%s: shared with %q", c.name, shared)
		}
		if out.Code >= 400 {
			checkProblem(t, c.name, out)
		}
	}
}

func checkProblem(t *testing.T, name string, out *httptest.ResponseRecorder) {
	t.Helper()
	var p struct {
		Type, Title, Code, Detail string
		Status                    int
	}
	if err := json.Unmarshal(out.Body.Bytes(), &p); err != nil || p.Status != out.Code ||
		p.Code == "" || !strings.Contains(p.Detail, "--allowed-") {
		t.Errorf("%s: %s, %v", name, out.Body, err)
	}
	if err := openapicheck.Is("Problem", out.Body.Bytes()); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if strings.Contains(out.Body.String(), "evil") ||
		out.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: %v %s", name, out.Header(), out.Body)
	}
}

func TestCheckNamesEveryFault(t *testing.T) {
	if err := ingress.CheckNames([]string{"hooks.example.com", "localhost"},
		[]string{"https://shop.example", "http://localhost:3000"}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"https://hooks.example.com", "hooks.example.com:443", "", "a/b"} {
		if ingress.CheckNames([]string{bad}, nil) == nil {
			t.Errorf("the host %q is taken", bad)
		}
	}
	for _, bad := range []string{
		"shop.example", "https://shop.example/", "ftp://shop.example", "*", "null", "",
	} {
		if ingress.CheckNames(nil, []string{bad}) == nil {
			t.Errorf("the origin %q is taken", bad)
		}
	}
}

// A path that two components may interpret differently must not reach a handler. For example, one
// router may read an encoded slash as part of an id, and the next as a separator.
func TestNoPathIsReadInTwoWays(t *testing.T) {
	c := ingress.Guard{Listen: loopback}
	for path, want := range map[string]int{
		"/":                              200,
		"/v1/endpoints/ep_1":             200,
		"/v1/endpoints/ep%5F1":           200,
		"/.well-known/jwks.json":         200,
		"/console/":                      200,
		"/a..b/c.":                       200,
		"/v1/events?next=%2F..%2F":       200,
		"/portal/endpoints/ep_1%2Ftest":  404,
		"/portal/endpoints/ep_1%2ftest":  404,
		"/portal%2Fendpoints":            404,
		"/portal/%2e%2e/v1/endpoints":    404,
		"/portal/.%2E/v1/endpoints":      404,
		"/portal/..%5Cv1":                404,
		"/portal\\v1":                    404,
		"/portal/../v1/endpoints":        404,
		"/portal/./endpoints":            404,
		"/portal/..":                     404,
		"/portal/.":                      404,
		"/portal//endpoints":             404,
		"//portal":                       404,
		"/portal//":                      404,
		"/v1/endpoints/ep_1%252F":        200, // a percent sign, which no id contains
		"http://127.0.0.1:8080/portal/x": 200,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		target, err := url.ParseRequestURI(path)
		if err != nil {
			t.Fatal(err)
		}
		r.URL, r.Host = target, loopback
		out := httptest.NewRecorder()
		c.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("let in"))
		})).ServeHTTP(out, r)
		if letIn := out.Body.String() == "let in"; out.Code != want || letIn != (want == 200) {
			t.Errorf("%s: %d %s", path, out.Code, out.Body)
		}
	}
}
