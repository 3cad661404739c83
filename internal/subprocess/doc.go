// Package subprocess helps with programs that this program starts: Killed prevents a killed process
// from leaving others behind, which would otherwise continue (on Linux), and ListenFree finds ports
// for programs that bind theirs later.
//
//	cmd.SysProcAttr = subprocess.Killed()
//
// File map: attr_linux.go and attr_other.go (Killed), freeport.go (ListenFree).
package subprocess
