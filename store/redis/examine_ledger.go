package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// most is how many things of a kind are named one by one.
const most = 5

// ledger looks at what is kept: at the chains of events, whose hashes it reckons again, and
// for suspects. To find the namespaces is to walk over the server's keys.
func (x *examination) ledger() {
	ctx, cancel := context.WithCancel(x.ctx)
	if end, ok := x.ctx.Deadline(); ok {
		ctx, cancel = context.WithTimeout(x.ctx, time.Until(end)/3)
	}
	defer cancel()
	chains, namespaces, err := x.keys(ctx)
	if err == nil {
		err = x.chains(ctx, chains)
	}
	if err != nil {
		words := x.words(err)
		if ctx.Err() != nil {
			words = "to look at all events takes longer than a third of the time that there is"
		}
		x.add("event-chain", onerun.FindingUnknown, words, "give it more time with --store-timeout")
	}
	if len(namespaces) > 0 {
		x.stale(namespaces)
	}
}

// keys finds the lists that are chains of events, and the namespaces.
func (x *examination) keys(ctx context.Context) (chains, namespaces []string, err error) {
	c, err := x.one()
	if err != nil {
		return nil, nil, err
	}
	begin := x.s.cfg.prefix + ":{"
	var cursor uint64
	for {
		type answer struct {
			keys []string
			next uint64
		}
		a, err := persist(ctx, func() (answer, error) {
			return inTime(ctx, func() (a answer, err error) {
				a.keys, a.next, err = c.Scan(ctx, cursor, globbed(begin)+"*", 1000).Result()
				return a, err
			})
		})
		if err != nil {
			return nil, nil, err
		}
		for _, key := range a.keys {
			ns, what, ok := strings.Cut(strings.TrimPrefix(key, begin), "}:")
			switch {
			case !ok:
			case what == "dir":
				namespaces = append(namespaces, ns)
			case what == "ops", strings.HasPrefix(what, "ev:"):
				chains = append(chains, key)
			}
		}
		if cursor = a.next; cursor == 0 {
			slices.Sort(chains)
			slices.Sort(namespaces)
			return slices.Compact(chains), slices.Compact(namespaces), nil
		}
	}
}

// globbed is a text as a pattern that matches it alone.
func globbed(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

// chains reckons every event's hash again. One that was changed, moved or inserted, or whose
// forerunner was removed, shows. That the last ones were removed doesn't.
func (x *examination) chains(ctx context.Context, lists []string) error {
	const check = "event-chain"
	var events int
	var faults []string
	for some := range slices.Chunk(lists, 100) {
		found, err := x.s.lists(ctx, some...)
		if err != nil {
			return err
		}
		for i, list := range found {
			before := ""
			for at, text := range list {
				events++
				words, err := readEvent(text)
				if err == nil && link(before, words) != words[eventWords-1] {
					err = errors.New("it doesn't follow from the one before it")
				}
				if err != nil {
					faults = append(faults, fmt.Sprintf("event %d of %s: %v", at, some[i], err))
				}
				if len(words) == eventWords {
					before = words[eventWords-1]
				}
			}
		}
	}
	if len(faults) > 0 {
		if len(faults) > most {
			faults = append(faults[:most], fmt.Sprintf("and %d more", len(faults)-most))
		}
		x.add(check, onerun.FindingDanger, strings.Join(faults, "; ")+": it was changed, moved or inserted, or one before it was removed",
			"find out who can write to these keys; a backup shows what stood there")
		return nil
	}
	x.add(check, onerun.FindingOK, fmt.Sprintf("%d events in %d chains, each follows from the one before it", events, len(lists)), "")
	return nil
}

// stale looks for suspects.
func (x *examination) stale(namespaces []string) {
	const check = "stale-runs"
	running, suspects := 0, 0
	for _, ns := range namespaces {
		name := unescape(ns)
		runs, err := x.s.selected(x.ctx, onerun.Query{Namespace: name, Statuses: []onerun.Status{onerun.Running}})
		if !x.unless(err, check, "") {
			return
		}
		running += len(runs)
		for _, r := range runs {
			if !r.Stale {
				continue
			}
			if suspects++; suspects <= most {
				x.add(check, onerun.FindingWarning, fmt.Sprintf("%s in namespace %s, run %s: %s", r.Name(), name, r.RunID, r.Evidence), "onerun --namespace "+name+" explain "+r.Name())
				x.findings[len(x.findings)-1].Job = r.Job
			}
		}
	}
	switch {
	case suspects > most:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("and %d more", suspects-most), "onerun stale")
	case suspects == 0:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d RUNNING in %d namespaces, none of them stale", running, len(namespaces)), "")
	}
}
