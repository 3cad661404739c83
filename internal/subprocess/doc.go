// Package subprocess helps with starting and coordinating processes. On Linux, Killed ensures that
// child processes don't outlive a parent that was killed. ListenFree finds ports for programs that
// bind them later. TryLock and Lock exclude other processes with a lock file.
//
//	cmd.SysProcAttr = subprocess.Killed()
//
// File map: attr_linux.go and attr_other.go (Killed), freeport.go (ListenFree), listener.go
// (Listener), lock.go (Lock).
package subprocess
