package procfs

import (
	"fmt"
	"strings"
	"testing"
)

// statText is a stat line as the kernel writes it (proc_pid_stat(5)).
func statText(pid int, name string, state byte, ppid, pgrp, session, flags, threads int, start, envEnd uint64) string {
	return fmt.Sprintf("%d (%s) %c %d %d %d 34816 -1 %d 102 0 0 0 1 2 3 4 20 0 %d 0 %d 2469888 183 18446744073709551615 "+
		"94 95 140 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 11 12 13 14 15 16 %d 0\n",
		pid, name, state, ppid, pgrp, session, flags, threads, start, envEnd)
}

func TestParseStat(t *testing.T) {
	for _, name := range append(hostileTexts, strings.Repeat(")", 64)) {
		text := statText(77, name, 'S', 1, 70, 60, 0x400000, 3, 123456789012, 9)
		got, err := ParseStat([]byte(text))
		want := Stat{PID: 77, State: 'S', PPID: 1, PGRP: 70, Session: 60, Threads: 3, StartTicks: 123456789012}
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if end, ok := statNumber([]byte(text), fieldEnvEnd); !ok || end != 9 {
			t.Errorf("%q: end of the environment %d, %v", text, end, ok)
		}
	}
}

var hostileTexts = []string{"sh", "", ") R 1 1 1", "((", "))", ") Z 1 (x) X 1 1 1", "a b", "\n", "\x00", "\xff"}

// A process on its way out has no group and session any more, and the first ones of a namespace have no parent in it.
func TestParseStatOfVanishing(t *testing.T) {
	got, err := ParseStat([]byte(statText(77, "x", 'X', 0, -1, -1, 4, 0, 5, 0)))
	if err != nil || got.PGRP != -1 || got.Session != -1 || !got.Gone() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseStatRefuses(t *testing.T) {
	good := statText(77, "x", 'S', 1, 70, 60, 0, 1, 5, 0)
	for _, text := range []string{
		"", "\n", "77", "77 (x", "77 x) S 1 1 1", "(x) S 1 1 1", "77(x) S 1", "77 )x( S 1",
		"x (x) S 1 1 1", "-7 (x) S 1 1 1", "0" + good[2:], "99999999999999999999" + good[2:],
		strings.Replace(good, " S ", " SS ", 1), strings.Replace(good, " S ", "  ", 1), strings.Replace(good, " 70 ", " x ", 1),
		strings.Replace(good, " 5 2469888", " -5 2469888", 1), strings.Replace(good, " 5 2469888", " 99999999999999999999 2469888", 1),
		good[:strings.Index(good, " 5 2469888")], // cut off before the start time
		strings.Repeat(")", 5000), strings.Repeat("\x00", 5000),
	} {
		if got, err := ParseStat([]byte(text)); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestGone(t *testing.T) {
	for _, c := range []struct {
		state   byte
		threads int
		want    bool
	}{
		{'R', 1, false},
		{'S', 1, false},
		{'D', 1, false},
		{'T', 1, false},
		{'t', 1, false},
		{'I', 1, false},
		{'Z', 1, true},
		{'Z', 0, true},
		{'Z', 2, false},
		{'X', 0, true},
		{'x', 0, true},
		{'?', 1, false},
	} {
		if got := (Stat{State: c.state, Threads: c.threads}).Gone(); got != c.want {
			t.Errorf("%c with %d threads: got %v", c.state, c.threads, got)
		}
	}
}

// FuzzParseStat: whatever a program calls itself, the other fields are read right; and no text at all makes it panic.
func FuzzParseStat(f *testing.F) {
	for _, name := range hostileTexts {
		f.Add(name, byte('S'), 1, 2, 3, uint64(4))
	}
	f.Fuzz(func(t *testing.T, name string, state byte, ppid, pgrp, threads int, start uint64) {
		_, _ = ParseStat([]byte(name))
		_, _ = statNumber([]byte(name), fieldEnvEnd)
		if state <= ' ' || state >= 0x7f || state == ')' {
			return // the kernel writes letters
		}
		want := Stat{PID: 5, State: state, PPID: ppid, PGRP: pgrp, Session: 6, Threads: threads, StartTicks: start}
		got, err := ParseStat([]byte(statText(5, name, state, ppid, pgrp, 6, 0, threads, start, 1)))
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", name, got, err, want)
		}
	})
}

func TestLivenessString(t *testing.T) {
	for l, want := range map[Liveness]string{Unknown: "unknown", Alive: "alive", Dead: "dead"} {
		if l.String() != want {
			t.Errorf("got %q, want %q", l, want)
		}
	}
	var zero Liveness
	if zero != Unknown {
		t.Error("the zero value must be unknown")
	}
}
