package api

import "github.com/gorilla/mux"

// Routes returns the router's routes, as "METHOD path", without HEAD.
func (a *API) Routes() []string {
	var routes []string
	_ = a.router.Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		path, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		methods, err := r.GetMethods()
		for _, m := range methods {
			if m != "HEAD" {
				routes = append(routes, m+" "+path)
			}
		}
		return err
	})
	return routes
}
