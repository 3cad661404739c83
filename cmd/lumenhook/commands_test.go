//go:build browser || signatures || receivers

package main

import (
	"os/exec"
	"strings"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

func command(dir string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.SysProcAttr = dir, subprocess.Killed()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", &commandError{args, string(out), err}
	}
	return string(out), nil
}

type commandError struct {
	args []string
	said string
	err  error
}

func (e *commandError) Error() string {
	return strings.Join(e.args, " ") + ": " + e.err.Error() + "\n" + e.said
}
