package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// oneKey: of the processes of all hosts that want the same key, one executes it.
func (m *meeting) oneKey(ctx context.Context) (string, error) {
	return m.contend(ctx, "key", 0, func(round int) []string { return m.runs(fmt.Sprintf("round-%d", round)) })
}

// oneLock: of the processes of all hosts that want the same lock, one has it.
func (m *meeting) oneLock(ctx context.Context) (string, error) {
	return m.contend(ctx, "lock", m.rounds, func(int) []string { return m.locks(m.ttl) })
}

// contend lets the processes of all hosts contend, round by round: all begin when all are ready,
// and who was executed goes on until the others have been refused everywhere. first is the number
// of the first round.
func (m *meeting) contend(ctx context.Context, what string, first int, kind func(round int) []string) (string, error) {
	for n := range m.rounds {
		round := first + n
		m.progress(fmt.Sprintf("%d hosts for one %s, round %d of %d", m.hosts, what, n+1, m.rounds))
		label := fmt.Sprintf("%s-%d", what, n)
		starts, err := m.compete(ctx, kind(n), workHold, label)
		if err == nil {
			err = m.waiting(ctx, func(ctx context.Context) error { return m.decided(ctx, starts, label) })
		}
		if err == nil {
			err = m.barrier(ctx, stageReady+stagesPerLap*round+1)
		}
		var seen testimony
		if err == nil {
			seen, err = m.finish(ctx, starts)
		}
		if err == nil && seen.overlaps() != "" {
			err = disproved("round %d: %s", n+1, seen.overlaps())
		}
		for _, s := range seen.of(sawIn, label) {
			m.mine.Wins = append(m.mine.Wins, [2]int64{int64(round), s.token})
		}
		if err == nil {
			err = m.barrier(ctx, stageReady+stagesPerLap*(round+1))
		}
		if err == nil {
			err = m.judge(what, round, n)
		}
		if err != nil {
			m.mine.Failed = err.Error()
			return "", err
		}
	}
	return m.count(what, first), nil
}

// waiting does something that takes its time, and goes on saying that this host is there.
func (m *meeting) waiting(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var result error
	done := make(chan struct{})
	go func() { result = do(ctx); close(done) }()
	for {
		select {
		case <-done:
			return result
		case <-time.After(beatMeeting):
		}
		if err := m.update(ctx); err != nil {
			cancel()
			<-done // its starts are looked at by nobody else
			return err
		}
	}
}

// barrier waits until every host has come as far as this one.
func (m *meeting) barrier(ctx context.Context, stage int) error {
	m.stage = stage
	for {
		if err := m.update(ctx); err != nil {
			return err
		}
		if m.all(stage) {
			return nil
		}
		if len(m.last.Seats) < m.hosts {
			return disproved("a host has left the meeting; there are %s", strings.Join(m.names(), ", "))
		}
		for id, s := range m.last.Seats {
			switch {
			case s.Stage >= stage || id == m.me:
			case s.Failed != "":
				return disproved("%s says: %s", s.Name, s.Failed)
			case time.Since(m.heard[id].at) > silentAfter:
				return disproved("%s has said nothing for %s", s.Name, span(silentAfter))
			}
		}
		if err := m.pause(ctx, meetingLook); err != nil {
			return err
		}
	}
}

// judge looks at what all hosts saw executed in a round: exactly one, with a token of its own.
func (m *meeting) judge(what string, round, n int) error {
	executed, before, token := 0, int64(0), int64(0)
	var by []string
	for _, s := range m.last.Seats {
		for _, win := range s.Wins {
			switch {
			case win[0] == int64(round):
				executed++
				token = win[1]
				by = append(by, s.Name)
			case win[0] == int64(round-1) && n > 0:
				before = win[1]
			}
		}
	}
	slices.Sort(by)
	switch {
	case executed != 1:
		return disproved("round %d: %d processes executed it, instead of one of all hosts' (%s)", n+1, executed, strings.Join(by, ", "))
	case token <= before && !(what == "key" && m.scopeKey):
		return disproved("round %d: the token %d doesn't follow after %d", n+1, token, before)
	}
	return nil
}

// count says how often each host had it.
func (m *meeting) count(what string, first int) string {
	var words []string
	for _, s := range m.last.Seats {
		n := 0
		for _, win := range s.Wins {
			if win[0] >= int64(first) && win[0] < int64(first+m.rounds) {
				n++
			}
		}
		words = append(words, fmt.Sprintf("%s %d", s.Name, n))
	}
	slices.Sort(words)
	return fmt.Sprintf("%d processes on each of %d hosts contended for a %s in %d rounds: all agree that exactly one of all was executed in each, tokens growing (%s)",
		m.processes, m.hosts, what, m.rounds, strings.Join(words, ", "))
}
