// Package testkit is what tests of many packages wait with, keep logs in, and measure what they
// use with.
//
// It hides how long a test waits for what comes true by itself, and how often it looks:
// soon at first, then ever less often, and for half of the time that the test run has
// left. So a slow machine fails no test, and what never comes true fails one, by its
// name, while there is time for the others.
package testkit
