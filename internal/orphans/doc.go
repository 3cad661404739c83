// Package orphans keeps a process that is killed from leaving others behind: it ends
// nothing, and a program that it started would go on.
//
//	cmd.SysProcAttr = orphans.Killed()
package orphans
