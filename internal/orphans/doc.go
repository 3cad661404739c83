// Package orphans prevents a killed process from leaving others behind: a program that it
// started would otherwise continue.
//
//	cmd.SysProcAttr = orphans.Killed()
package orphans
