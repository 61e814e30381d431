package config

import (
	"maps"
	"slices"
	"strings"
	"unicode"
)

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// nearest gives the name that was probably meant, "" if none is near. How the words of a name are put together (on-crash,
// onCrash, ON_CRASH) makes no difference.
func nearest(word string, names []string) string {
	if len(word) > maxKey {
		return ""
	}
	plain := joined(word)
	best, least := "", 1+max(1, min(3, len([]rune(plain))/3))
	for _, name := range names {
		other := joined(name)
		if d := distance([]rune(plain), []rune(other)); d < least && d < len([]rune(other)) {
			best, least = name, d
		}
	}
	return best
}

// joined is a name in lower case with nothing between its words.
func joined(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return unicode.ToLower(r)
	}, s)
}

// distance counts the characters to insert, leave out, replace or swap with their neighbour to make b of a (optimal
// string alignment).
func distance(a, b []rune) int {
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
