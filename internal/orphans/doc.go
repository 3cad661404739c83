// Package orphans prevents a killed process from leaving others behind: a program that it
// started would otherwise continue. Killed is of one process, and for Linux; a group has what that
// starts, too.
//
//	cmd.SysProcAttr = orphans.Killed()
package orphans
