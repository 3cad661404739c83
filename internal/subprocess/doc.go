// Package subprocess helps with other processes. Killed prevents a killed process from leaving
// others behind, which would otherwise continue (on Linux). ListenFree finds ports for programs
// that bind theirs later. Lock and TryLock keep other processes out.
//
//	cmd.SysProcAttr = subprocess.Killed()
//
// File map: attr_linux.go and attr_other.go (Killed), freeport.go (ListenFree), listener.go
// (Listener), lock.go (Lock).
package subprocess
