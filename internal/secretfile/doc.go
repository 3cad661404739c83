// Package secretfile changes files of keys: whole, durably, and one process at a time.
//
// File map:
//
//	change.go  changing a file, and making the names in a folder durable
package secretfile
