// Package orphans keeps tests from leaving processes behind: a test binary that is
// killed ends nothing, and a program it started would go on.
//
//	cmd.SysProcAttr = orphans.Killed()
package orphans
