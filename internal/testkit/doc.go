// Package testkit is shared by the tests of many packages: waiting for conditions, collecting logs,
// and measuring resource usage.
//
// It hides how long a test waits for a condition, and how often it checks it: soon at first, then
// ever less often, and for half of the time that the test run has left. So a slow machine fails no
// test, and a condition that never becomes true fails one, by its name, while there is time for the
// others.
package testkit
