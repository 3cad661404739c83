// Package check holds what is deployed by (image, compose file, chart, units, release)
// against the program, and against the parsers of those who read it. It has tests only.
//
// Invariants:
//
//   - Every command line, flag, variable and setting of the program in deploy/ is one
//     that the built program accepts: no flag stands there only on paper.
//   - The program is built by the Dockerfile's own command.
//
// File map:
//
//	program_test.go   the built program, and what it is asked
//	dockerfile_test.go, compose_test.go, chart_test.go, units_test.go, release_test.go
//	nfpm_test.go      the packages of .goreleaser.yaml
//	package_test.go   the .deb, installed; sandbox_test.go: its unit's sandbox (make test-package)
//	onemachine_test.go the page docs/operate/one-machine.md, followed
//	references_test.go what rendered manifests say of each other
package check
