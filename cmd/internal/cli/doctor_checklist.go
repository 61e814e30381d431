package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
)

// reply is one of the checklist.
type reply struct {
	Question string `json:"question"`
	Answer   string `json:"answer"` // yes, no, unknown
	Evidence string `json:"evidence"`
	bad      string // the answer that isn't safe
}

const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown"
)

// checklist answers the questions that a review of a job asks.
func (c *doctorCmd) checklist(ctx context.Context, d *doctor) error {
	list := []reply{
		d.startsTwice(), c.sideEffects(d.env), d.atomic(ctx), d.cleanedUp(ctx), d.marginRight(), d.oneMachine(),
	}
	ok := !slices.ContainsFunc(list, func(a reply) bool { return a.Answer == a.bad })
	var err error
	if c.JSON {
		err = writeJSON(d.env.out, map[string]any{"job": d.job, "ok": ok, "checklist": list})
	} else {
		for _, a := range list {
			if err == nil {
				err = say(d.env, "%s? %s: %s", a.Question, a.Answer, a.Evidence)
			}
		}
	}
	if err == nil && !ok {
		err = &statusError{status: exitState}
	}
	return err
}

// startsTwice: by another store, or without a key.
func (d *doctor) startsTwice() reply {
	a := reply{Question: "can it start twice", bad: yes, Answer: no}
	var because []string
	for _, o := range d.others {
		if slices.Contains(o.jobs, d.job) {
			because = append(because, fmt.Sprintf("it is in another store as well: %s (%s)", o.path, strings.Join(o.found, ", ")))
		}
	}
	starts, places, accounts := 0, []string{}, []string{}
	for _, s := range d.crons {
		if s.job != d.job {
			continue
		}
		starts++
		places = append(places, s.where)
		if !slices.Contains(accounts, s.account) {
			accounts = append(accounts, s.account)
		}
	}
	keyed, withoutKey := d.keys()
	if withoutKey && starts > 1 {
		because = append(because, fmt.Sprintf("it has no key, and %d lines of crontabs and services start it, of %s (%s): each one runs it", starts, some(accounts), some(places)))
	}
	if withoutKey && keyed {
		because = append(because, "it has runs without a key beside those with one: those run whatever has run")
	}
	lock := "job/" + d.job
	if own := d.concerned(); len(own) > 0 && len(own[0].locks) > 0 {
		lock = string(own[0].locks[0])
		if n := len(own[0].locks); n > 1 && withoutKey {
			because = append(because, fmt.Sprintf("it has no key, and was started under %d different locks", n))
		}
	}
	switch {
	case len(because) > 0:
		a.Answer, a.Evidence = yes, strings.Join(because, "; ")
	case keyed:
		a.Evidence = "it has a key, which succeeds once, and the lock " + lock
	case withoutKey:
		a.Evidence = "not beside itself, by the lock " + lock + "; it has no key, so every start runs it again, and this store knows of one place that starts it at most"
	default:
		a.Answer, a.Evidence = unknown, "it has no run in this store, and no crontab that can be read starts it"
	}
	return a
}

// keys says whether the job is started with a key, and without.
func (d *doctor) keys() (keyed, withoutKey bool) {
	for _, j := range d.concerned() {
		keyed, withoutKey = keyed || j.keyed, withoutKey || j.unkeyed
	}
	for _, s := range d.crons {
		if s.job == d.job {
			keyed, withoutKey = keyed || s.keyed, withoutKey || !s.keyed
		}
	}
	return keyed, withoutKey
}

// sideEffects is what only a person knows.
func (c *doctorCmd) sideEffects(e *env) reply {
	a := reply{Question: "has it side effects", Answer: unknown, Evidence: "nobody has said; answer with --side-effects yes or no"}
	said := c.SideEffects
	if said == "ask" && !c.JSON && isTerminal(0) && isTerminal(1) {
		_, _ = fmt.Fprintf(e.err, "Has %s effects outside its own files: mails, payments, calls to other services? [y/n] ", c.Job)
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n') // an end without an answer is none
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", yes:
			said = yes
		case "n", no:
			said = no
		}
	}
	switch said {
	case yes:
		a.Answer, a.Evidence = yes, "you say so: a run that died may have had them; use --on-crash manual, and give the receiver the token"
	case no:
		a.Answer, a.Evidence = no, "you say so: it can be run again after a crash"
	}
	return a
}

// marginRight compares stale-after with how long the job takes.
func (d *doctor) marginRight() reply {
	a := reply{Question: "is the stale margin right", bad: no, Answer: unknown, Evidence: "it has no success yet to compare with"}
	own := d.concerned()
	if len(own) == 0 || own[0].successes == 0 {
		return a
	}
	j := own[0]
	limit, how := j.staleAfter, "set to "
	if limit == 0 {
		limit, how = onerun.UsualStaleAfter(j.worst), "by default "
	}
	a.Answer = yes
	if limit < j.worst {
		a.Answer = no
	}
	a.Evidence = fmt.Sprintf("stale-after is %s%s, and the longest of the last %d successes (%s) took %s", how, span(limit), j.successes, j.worstRun, span(j.worst))
	return a
}

// oneMachine: the embedded store's is.
func (d *doctor) oneMachine() reply {
	a := reply{Question: "is one machine enough", bad: no, Answer: yes}
	const unseen = "whether another host starts this job can't be seen from here"
	if !d.embedded() {
		a.Answer, a.Evidence = unknown, "the store is one for many machines; "+unseen
		return a
	}
	if sign := containerSign(); sign != "" {
		a.Answer, a.Evidence = no, "this looks like one of several hosts: "+sign
		return a
	}
	for _, f := range d.findings {
		if f.Check == "file-system" && f.Status == onerun.FindingDanger && strings.Contains(f.Evidence, "network file system") {
			a.Answer, a.Evidence = no, f.Evidence
			return a
		}
	}
	a.Evidence = "nothing here looks like one of several hosts; " + unseen
	return a
}
