package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// An example in a help is a line with a # that says what for, and below it the command
// line. Several are told apart by an empty line, and a test runs each of them
// (examples_test.go).

// withExample gives a command its examples.
func withExample(c *cobra.Command, examples string) *cobra.Command {
	c.Example = examples
	return c
}

// examplesOf returns the examples of a group: the first of each of these of its commands.
func examplesOf(group *cobra.Command, names ...string) string {
	var firsts []string
	for _, name := range names {
		i := slices.IndexFunc(group.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			panic(fmt.Sprintf("%s has no command %s", group.CommandPath(), name))
		}
		first, _, _ := strings.Cut(group.Commands()[i].Example, "\n\n")
		firsts = append(firsts, first)
	}
	return strings.Join(firsts, "\n\n")
}
