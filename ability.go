package onerun

// Ability finds an optional ability of a store, such as Migrator: its own, or that of the
// store that it stands in front of.
func Ability[T any](s Store) (ability T, ok bool) {
	for {
		if ability, ok = s.(T); ok {
			return ability, true
		}
		inner, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			return ability, false
		}
		s = inner.Unwrap()
	}
}
