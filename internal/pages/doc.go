// Package pages reads the project's pages, which are Markdown: it hides the parser, and how a
// forge names the anchor of a heading. The site is made of what it reads (docs/site), and the
// tests that hold pages to the program find in it what they run (cmd/lumenhook).
//
// It holds that a page reads the same here as on a forge: tables and strikethrough of GitHub,
// no HTML of a page's own, and anchors as GitHub makes them, of which it refuses to make two
// alike.
//
// Files: pages.go a page and its parts; anchors.go the names of headings.
package pages
