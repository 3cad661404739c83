package cli_test

import (
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
)

func TestACellShowsWhatAPointerPointsTo(t *testing.T) {
	noon := time.Date(2026, 11, 24, 12, 0, 0, 0, time.FixedZone("", 3600))
	address := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		cell any
		want string
	}{
		{new(int64(7)), "7"},
		{new(uint32(8)), "8"},
		{new(true), "true"},
		{new("text\nof two lines"), "text of two lines"},
		{new(""), "-"},
		{&noon, "2026-11-24T11:00:00Z"},
		{noon, "2026-11-24T11:00:00Z"},
		{&address, "192.0.2.1"},
		{&url.URL{Scheme: "https", Host: "example.com"}, "https://example.com"},
		{(*int64)(nil), "-"},
		{(*time.Time)(nil), "-"},
		{(*url.URL)(nil), "-"},
		{nil, "-"},
		{[]string{"a", "b"}, "a,b"},
	} {
		if got := cli.OneLine(c.cell); got != c.want {
			t.Errorf("a cell of %T shows %q; want %q", c.cell, got, c.want)
		}
	}
}
