package main_test

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestHistories: the search finds each kind of history that the rules don't allow, and lets pass what
// they do.
func TestHistories(t *testing.T) {
	t.Parallel()
	claim := func(token int64) op { return op{what: "claim", token: token} }
	end := func(token int64, as string) op { return op{what: "end", token: token, as: as} }
	refused := func(why string) op { return op{what: "refused", as: why} }
	resolve := func(as string) op { return op{what: "resolve", as: as, sure: true} }
	rerun, pause, resume := op{what: "rerun", sure: true}, op{what: "pause", sure: true}, op{what: "resume", sure: true}
	for name, c := range map[string]struct {
		model porcupine.Model
		steps []op
		ok    bool
	}{
		"one after the other":           {lockModel(), []op{claim(1), end(1, ""), claim(3), end(3, "")}, true},
		"two owners":                    {lockModel(), []op{claim(1), claim(2), end(1, ""), end(2, "")}, false},
		"a token that doesn't grow":     {lockModel(), []op{claim(2), end(2, ""), claim(1), end(1, "")}, false},
		"a token again":                 {lockModel(), []op{claim(2), end(2, ""), claim(2), end(2, "")}, false},
		"a retry":                       {keyModel(), []op{claim(1), end(1, "failed"), refused("retry_not_due"), claim(2), end(2, "succeeded"), refused("succeeded")}, true},
		"a success again":               {keyModel(), []op{claim(1), end(1, "succeeded"), claim(2)}, false},
		"an approved rerun":             {keyModel(), []op{claim(1), end(1, "succeeded"), rerun, claim(2), end(2, "succeeded"), refused("succeeded")}, true},
		"an approval spent twice":       {keyModel(), []op{claim(1), end(1, "succeeded"), rerun, claim(2), end(2, "succeeded"), claim(3)}, false},
		"an approval that isn't heeded": {keyModel(), []op{claim(1), end(1, "succeeded"), rerun, refused("succeeded")}, false},
		"stopped, and tried again":      {keyModel(), []op{claim(1), end(1, "blocked"), claim(2)}, false},
		"stopped, and approved":         {keyModel(), []op{claim(1), end(1, "blocked"), refused("failed"), rerun, claim(2)}, true},
		"two owners of a key":           {keyModel(), []op{claim(1), claim(2)}, false},
		"paused":                        {keyModel(), []op{pause, refused("paused"), resume, claim(1)}, true},
		"a claim while it is paused":    {keyModel(), []op{pause, claim(1)}, false},
		"paused for no reason":          {keyModel(), []op{pause, resume, refused("paused")}, false},
		"cancelled in advance":          {keyModel(), []op{resolve("skipped"), refused("skipped")}, true},
		"cancelled, and executed":       {keyModel(), []op{resolve("skipped"), claim(1)}, false},
		"a success that is resolved":    {keyModel(), []op{claim(1), end(1, "succeeded"), resolve("skipped")}, false},
		"a failure that is resolved":    {keyModel(), []op{claim(1), end(1, "blocked"), resolve("succeeded"), refused("succeeded")}, true},
		"refused for nobody":            {keyModel(), []op{claim(1), end(1, "succeeded"), refused("running")}, false},
		"an unknown end":                {keyModel(), []op{claim(1), end(1, "unknown"), claim(2), end(2, "unknown"), refused("succeeded")}, true},
		"a late word":                   {keyModel(), []op{claim(1), end(1, "unknown"), {what: "correct", token: 1}, refused("succeeded")}, true},
	} {
		var history []porcupine.Operation
		for i, o := range c.steps {
			history = append(history, step(o, int64(10*i), int64(10*i+5)))
		}
		if got := porcupine.CheckOperations(c.model, history); got != c.ok {
			t.Errorf("%s: it is allowed: %v, want %v", name, got, c.ok)
		}
	}
	// Two that overlap are taken in whatever order there is.
	if !porcupine.CheckOperations(lockModel(), []porcupine.Operation{step(claim(2), 0, 30), step(end(1, ""), 10, 20), step(claim(1), 0, 5), step(end(2, ""), 40, never)}) {
		t.Error("no order was found where there is one")
	}
}
