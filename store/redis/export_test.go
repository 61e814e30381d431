package redis

import (
	"cmp"
	"context"

	"github.com/onerun-dev/onerun"
)

// What the external tests look at.
var (
	LuaSHA256 = luaSHA256
	LuaRules  = luaBegin + luaLib
)

// PolicyOf is a policy as it is kept.
func PolicyOf(p onerun.Policy) string {
	return policyOf(onerun.Claim{Policy: p}, cmp.Or(p.TTL, onerun.DefaultTTL), onerun.CrashAuto)
}

// After is a run as it is once something was decided about it.
func After(ctx context.Context, s *Store, namespace, id string) (onerun.Run, error) {
	return s.after(ctx, namespace, id)
}

// KeyOf is a key of a namespace.
func KeyOf(s *Store, namespace, what string) string { return s.keys(namespace).is(what) }
