// Package docs holds the pages of the documentation, for programs that show them.
package docs

import "embed"

// Pages are the pages for people who use and operate the service; decisions are not among them.
//
//go:embed *.md guides/*.md operate/*.md tutorials/*.md
var Pages embed.FS
