package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Nearest returns the names that cobra suggests for a word: those that begin with it, or differ by
// at most two letters, and at most half. A name that is given twice is suggested once.
func Nearest(word string, names []string) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: max(1, min(2, len(word)/2))}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return c.SuggestionsFor(word)
}

// DidYouMean returns the end of a sentence about an unknown word.
func DidYouMean(word string, names []string, before string) string {
	nearest := Nearest(word, names)
	if len(nearest) == 0 {
		return ""
	}
	return "; did you mean " + before + strings.Join(nearest, " or "+before) + "?"
}

// flagsToldMost bounds how many flags are told for one that there is not.
const flagsToldMost = 4

// didYouMeanFlag returns the end of a sentence about an unknown flag. Some commands have one flag
// where others have several: --memo, and --memo-text, --memo-id and --memo-hash. Who gives the one
// is told all of the several, and who gives one of the several is told the one.
func didYouMeanFlag(word string, names []string) string {
	var several []string
	one := ""
	for _, name := range names {
		if strings.HasPrefix(name, word+"-") {
			several = append(several, "--"+name)
		}
		if strings.HasPrefix(word, name+"-") {
			one = "; did you mean --" + name + "?"
		}
	}
	if last := len(several) - 1; last > 0 && last < flagsToldMost {
		return "; did you mean " + strings.Join(several[:last], ", ") + " or " + several[last] + "?"
	}
	return cmp.Or(DidYouMean(word, names, "--"), one)
}
