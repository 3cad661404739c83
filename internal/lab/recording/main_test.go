package main

import (
	"html"
	"os"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// The picture must show the README's current blocks. If they change, create it again.
func TestThePictureIsOfTheREADME(t *testing.T) {
	page, err := pages.Read("../../..", "README.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../../docs/recording/first-webhook.svg")
	if err != nil {
		t.Fatal(err)
	}
	blocks := blocksOf(page)
	if len(blocks) < len(awaited) {
		t.Fatalf("the README has %d blocks, and %d are recorded", len(blocks), len(awaited))
	}
	for _, block := range blocks[:len(awaited)] {
		for typed := range strings.SplitSeq(strings.TrimSpace(block), "\n") {
			if !strings.Contains(string(picture), html.EscapeString(cut(typed, columns-2))) {
				t.Errorf("the picture lacks %q: make recording makes it anew", typed)
			}
		}
	}
}
