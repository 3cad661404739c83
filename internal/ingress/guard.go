package ingress

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Guard decides which requests from web pages an HTTP server accepts.
type Guard struct {
	// Listen is the server's address. On a loopback address, the server's only name is localhost. On
	// other addresses, its names are unknown, so all names are accepted unless Hosts is set.
	Listen string
	// Hosts are additional names of the server without ports, such as the name of a reverse proxy.
	// Pages from these hosts count as same-origin.
	Hosts []string
	// Origins are other origins that may use the server, such as https://shop.example.
	Origins []string
	// Links allows links from other sites, that is, GET requests that open a page in a top-level
	// window.
	Links bool
	// Framed, if set, is a path. Pages at or below it may be opened in a frame on another site. Their
	// Content-Security-Policy decides on which sites.
	Framed string
}

// CheckNames returns an error for each invalid name in hosts and origins.
func CheckNames(hosts, origins []string) error {
	var faults []error
	for _, h := range hosts {
		if u, err := url.Parse("http://" + h); err != nil || u.Host != h || u.Port() != "" || h == "" {
			faults = append(faults,
				fmt.Errorf("%q must be a host name without a scheme or a port, such as "+
					"hooks.example.com", h))
		}
	}
	for _, o := range origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Scheme+"://"+u.Host != o ||
			u.Scheme != "http" && u.Scheme != "https" {
			faults = append(faults,
				fmt.Errorf("%q must be an origin, such as https://shop.example or http://localhost:3000", o))
		}
	}
	return errors.Join(faults...)
}

// Wrap protects a handler.
func (c Guard) Wrap(next http.Handler) http.Handler {
	g := &guard{Guard: c, next: next}
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	g.anyName = len(c.Hosts) == 0 && err == nil && ip != nil && !ip.IsLoopback()
	for _, h := range append([]string{"localhost", host}, c.Hosts...) {
		g.names = append(g.names, strings.ToLower(h))
	}
	return g
}

type guard struct {
	Guard
	next    http.Handler
	names   []string
	anyName bool
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	switch {
	case ambiguous(strings.ToLower(r.URL.EscapedPath())):
		refuse(w, http.StatusNotFound, "NOT_FOUND", "urn:lumenhook:problem:not-found",
			"No path of this server has an encoded slash, backslash or dot, an empty segment, or a "+
				"segment of dots. Send the path without them.")
	case !g.named(r.Host):
		refuse(w, http.StatusMisdirectedRequest, "HOST_NOT_ALLOWED",
			"urn:lumenhook:problem:host-not-allowed",
			"This server does not answer for the Host of this request. If it is a name of the server, "+
				"give it with --allowed-hosts.")
	case origin != "" && slices.Contains(g.Origins, origin):
		g.share(w, r, origin)
	case g.foreign(r, origin):
		refuse(w, http.StatusForbidden, "ORIGIN_NOT_ALLOWED", "urn:lumenhook:problem:origin-not-allowed",
			"This server does not answer pages of other origins. If the page is yours, give its origin "+
				"with --allowed-origins.")
	default:
		g.next.ServeHTTP(w, r)
	}
}

// ambiguous reports whether a proxy, a router and a handler may interpret a path differently: %2F
// may be part of a name, or a slash.
func ambiguous(path string) bool {
	for _, form := range []string{"%2f", "%5c", "%2e", "//", "/./", "/../"} {
		if strings.Contains(path, form) {
			return true
		}
	}
	return strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..")
}

// named reports whether the Host header is an IP address or a name of this server.
func (g *guard) named(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return host != "" && (g.anyName || slices.Contains(g.names, host))
}

// foreign reports whether a page of another origin sent the request.
func (g *guard) foreign(r *http.Request, origin string) bool {
	if origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" { // includes "null"
			return true
		}
		// Schemes are not compared, because a proxy may terminate TLS. Neither are the ports of Hosts,
		// which have none.
		return !strings.EqualFold(u.Host, r.Host) &&
			!slices.Contains(lower(g.Hosts), strings.ToLower(u.Hostname()))
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	opened := r.Header.Get("Sec-Fetch-Mode") == "navigate" && g.opens(r)
	return !(opened && (r.Method == http.MethodGet || r.Method == http.MethodHead))
}

// opens reports whether a navigation from another site may show the response, in a top-level window
// or in a frame.
func (g *guard) opens(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "document":
		return g.Links
	case "iframe":
		return g.Framed != "" &&
			(r.URL.Path == g.Framed || strings.HasPrefix(r.URL.Path, g.Framed+"/"))
	}
	return false
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}

func (g *guard) share(w http.ResponseWriter, r *http.Request, origin string) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers",
			"Authorization, Content-Type, Idempotency-Key, If-Match, X-Client-Name, X-Client-Version, "+
				"X-App-Name, X-App-Version")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	g.next.ServeHTTP(w, r)
}

// refuse responds with a problem (RFC 9457) that contains nothing from the request.
func refuse(w http.ResponseWriter, status int, code, kind, detail string) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close") // the body was not read
	id := "req_" + strings.ToLower(rand.Text())
	h.Set("X-Request-Id", id)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": kind, "title": http.StatusText(status), "status": status, "code": code, "detail": detail,
		"requestId": id,
	})
}
