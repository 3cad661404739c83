//go:build !nightly

package testkit

// IsNightly reports whether these are the tests of make nightly.
const IsNightly = false
