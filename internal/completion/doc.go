// Package completion completes command lines in a shell. In addition to the names of commands and
// flags, it completes flag values and the ids of the service that the command line addresses. It
// hides cobra's completion functions and the shells' scripts.
//
// Invariants:
//
//   - The service is queried for at most a second (askMax), with a single read of one page. If it
//     doesn't respond, nothing is completed and no error is shown.
//   - Only flags whose usage starts with a file or a folder complete files. Users would take a file
//     for a value.
//   - Text written by others (labels, memos, descriptions) is shown without control characters, and
//     is never inserted into the command line.
//
// File map: complete.go (completion), init.bash (part of the bash script).
package completion
