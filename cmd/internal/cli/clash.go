package cli

import (
	"slices"

	"github.com/onerun-dev/onerun"
)

// clash is what no run may have: settings that are each right, and contradict each other.
type clash struct {
	flags []string // that it is about
	typed string   // what a start is told
	filed string   // the same of the keys of a configuration file
}

// refused is a clash of flags.
func (x clash) refused() error { return usage("%s", x.typed) }

// clashes are those of a run; keyed: it has a key.
func (c *runCmd) clashes(keyed bool) []clash {
	all := slices.Concat(c.scopeFlags.clashes(keyed), c.policyFlags.clashes())
	if c.IfUnavailable == "run" && onerun.OnCrash(c.OnCrash) == onerun.CrashManual {
		const why = " contradict each other: what a person has to decide about can't begin without a claim"
		all = append(all, clash{[]string{"if-unavailable", "on-crash"}, "--if-unavailable run and --on-crash manual" + why, "if_unavailable: run and on_crash: manual" + why})
	}
	return all
}

func (f scopeFlags) clashes(keyed bool) []clash {
	switch {
	case f.Lock != "" && f.Scope == "key":
		const why = " key name two locks; a run holds one"
		return []clash{{[]string{"lock", "scope"}, "--lock and --scope" + why, "lock and scope:" + why}}
	case f.Scope == "key" && !keyed:
		return []clash{{[]string{"scope"}, "--scope key needs a key; give --date, --period or --partition", "scope: key needs a key; give date, period or partition"}}
	}
	return nil
}

func (f policyFlags) clashes() []clash {
	if f.NoWait && f.Wait != nil {
		const why = " contradict each other"
		return []clash{{[]string{"no-wait", "wait"}, "-n and --wait" + why, "no_wait and wait" + why}}
	}
	return nil
}
