// Package testkit contains helpers that tests of many packages share: waiting for conditions,
// collecting logs, and measuring resource usage.
//
// It hides how long and how often a test checks a condition. Checks become less frequent over time,
// and continue for half of the time that is left in the test run. So tests don't fail on a slow
// machine. A condition that never becomes true fails its test by name, with time left for the other
// tests.
package testkit
