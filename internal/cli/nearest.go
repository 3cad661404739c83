package cli

import (
	"cmp"
	"strings"
)

// Nearest returns the name that is most similar to a word, or "" if none is: it differs by
// two letters or a third of them at most, and by less than half, or begins with the word.
func Nearest(word string, names []string) string {
	best, bestDistance := "", max(len(word)/3, min(len(word)/2, 2))+1
	for _, name := range names {
		distance := editDistance(strings.ToLower(word), strings.ToLower(name))
		if distance > 0 && len(word) > 1 && strings.HasPrefix(name, word) {
			distance = 1
		}
		if distance < bestDistance {
			best, bestDistance = name, distance
		}
	}
	return best
}

// editDistance is the number of letters to add, remove, replace or exchange with the next one to
// turn one word into another (Damerau and Levenshtein, each place being changed once).
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// DidYouMean returns the end of a sentence about an unknown word.
func DidYouMean(word string, names []string, before string) string {
	if name := Nearest(word, names); name != "" {
		return "; did you mean " + before + name + "?"
	}
	return ""
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
