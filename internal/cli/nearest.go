package cli

import "strings"

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

// editDistance is the number of letters to add, remove or replace to turn one word into
// another (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// DidYouMean returns the end of a sentence about an unknown word.
func DidYouMean(word string, names []string, before string) string {
	if name := Nearest(word, names); name != "" {
		return "; did you mean " + before + name + "?"
	}
	return ""
}
