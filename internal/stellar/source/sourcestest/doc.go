// Package sourcestest holds the tests that drive every source of ledgers over the
// same chain. There is nothing in it to use.
package sourcestest
