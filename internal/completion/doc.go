// Package completion completes command lines in a shell beyond the names of commands and flags: the
// values that flags take, and the ids of the service that the line is about. It hides cobra's
// functions for that, and the scripts of the shells.
//
// Invariants:
//
//   - A service is asked for a second at most (askMax), for one page, and by reading alone. One
//     that does not answer completes nothing, and no error is shown.
//   - A flag that names no file completes no files: those of the folder would be taken for its
//     values.
//   - What others have written (labels, memos, descriptions) is shown without control
//     characters, and is never what is put into the line.
//
// File map: complete.go (everything).
package completion
