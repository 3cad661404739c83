package main

import (
	"slices"
	"testing"
)

// TestGivenPermissionsReplaceTheDefaultOnes: a key that was asked to read alone can
// neither write nor operate.
func TestGivenPermissionsReplaceTheDefaultOnes(t *testing.T) {
	for _, line := range [][]string{{"accounts", "create"}, {"keys", "create"}} {
		c, _, err := newRoot().Find(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ParseFlags([]string{"--permissions", "read"}); err != nil {
			t.Fatal(err)
		}
		got, err := c.Flags().GetStringSlice("permissions")
		if err != nil || !slices.Equal(got, []string{"read"}) {
			t.Errorf("%v --permissions read asks for %v (%v)", line, got, err)
		}
	}
}
