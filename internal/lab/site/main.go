// Command site makes the pages of this repository into a site of static files, which needs no
// other address and no server: it can be put on any host, or opened from a folder.
//
//	make site          bin/site
//	make site-serve    the same at http://127.0.0.1:8181
//
// It hides how Markdown becomes HTML, what a link between pages or to a file of the repository
// becomes, how the description of the API becomes pages, and what the search finds. Which pages
// there are, in which order, is what docs/README.md lists: a page that no list names is an
// error, and so is a link that leads nowhere ([check.go]). Why it is a generator of our own:
// docs/decisions/site.md.
//
// File map: main.go what is asked for; build.go the pages and the files they come to; nav.go
// the order of docs/README.md; render.go a page as HTML; highlight.go blocks of code; states.go
// diagrams of states; api.go openapi.yaml as pages; search.go what the search finds; check.go
// that links lead somewhere and nothing is loaded from elsewhere; serve.go a look at it;
// assets what every page has.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	out := flag.String("out", "../../bin/site", "where the site goes; what was there is removed")
	root := flag.String("root", "../..", "the repository")
	listen := flag.String("listen", "", "serve it at this address, such as 127.0.0.1:8181")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *root, *out, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out, listen string) error {
	n, err := build(root, out)
	if err != nil {
		return err
	}
	fmt.Printf("%d pages in %s; begin with %s/index.html\n", n, out, out)
	if listen == "" {
		return nil
	}
	return serve(ctx, out, listen, func(address string) { fmt.Printf("http://%s/\n", address) })
}
