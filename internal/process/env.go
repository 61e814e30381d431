package process

import (
	"maps"
	"slices"
	"strings"
)

// Env returns base with the variables of set in it and those of unset taken out. All else stays as it is and where it is:
// order, other duplicates, entries without "=". A variable that is set takes the place of its first entry in base, and
// its later entries go, since programs differ in which one they believe; new ones follow at the end, sorted. A
// name both in set and in unset is set.
func Env(base []string, set map[string]string, unset ...string) []string {
	env := make([]string, 0, len(base)+len(set))
	done := make(map[string]bool, len(set))
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		value, replaced := set[name]
		switch {
		case !ok: // no variable, though it may look like one's name
			env = append(env, entry)
		case replaced && !done[name]:
			env = append(env, name+"="+value)
			done[name] = true
		case replaced || slices.Contains(unset, name):
		default:
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !done[name] {
			env = append(env, name+"="+set[name])
		}
	}
	return env
}
