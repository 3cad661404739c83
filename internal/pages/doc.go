// Package pages reads the project's pages, which are Markdown. It hides the parser, and how a
// forge names the anchor of a heading. The site (internal/lab/site) shows what it reads, and the
// tests that compare pages with the program (cmd/lumenhook) find in it what they run.
//
// It holds that a page reads the same here as on a forge: tables and strikethrough of GitHub,
// no HTML of a page's own, and anchors as GitHub makes them, of which it refuses to make two
// alike.
//
// Files: pages.go a page, its parts and the names of headings.
package pages
