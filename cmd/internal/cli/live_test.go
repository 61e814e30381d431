package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/onerun-dev/onerun"
)

// TestLogsWhileRunning: what a job has printed is seen while it runs, in whole lines, masked.
func TestLogsWhileRunning(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "-c", `echo one; echo password=c4n4ry; printf half; read go; echo " and half"`)
	p.says("one")
	var r result
	if !eventually(func() bool { r = b.run("logs", "settle"); return r.code == 0 }) || r.out != "one\npassword=***\n" {
		t.Errorf("while it runs: %+v", r)
	}
	if o := b.object(t, "logs", "settle"); o["bytes_total"] != float64(len("one\npassword=c4n4ry\n")) || o["truncated"] != false {
		t.Errorf("while it runs: %v", o)
	}
	p.goesOn()
	p.wait()
	if r := b.run("logs", "settle").exits(t, 0); r.out != "one\npassword=***\nhalf and half\n" {
		t.Errorf("after it: %+v", r)
	}
}

// TestLogsWhileRunningLongLine: the middle of a line is never seen, however long the line is: it may
// be the middle of a secret.
func TestLogsWhileRunningLongLine(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "-c", `echo one; head -c 20000 /dev/zero | tr '\0' x; printf ' postgres://ana:c4n4ry'; touch up; read go; echo "42@host/ done"; touch up2; read go`)
	p.says("one")
	if !eventually(func() bool { return exists(b.path("up")) && b.run("logs", "settle").out == "one\n" }) {
		t.Fatal("nothing is seen of it")
	}
	for range 30 {
		if r := b.run("logs", "settle"); strings.Contains(r.out, "c4n4ry") {
			t.Fatalf("the middle of a line is seen: %.80q", r.out)
		}
	}
	p.goesOn()
	if !eventually(func() bool { return strings.HasSuffix(b.run("logs", "settle").out, " postgres://***@host/ done\n") }) {
		t.Errorf("the line isn't seen when it is whole: %.80q", b.run("logs", "settle").out)
	}
	p.goesOn()
	p.wait()
}

// TestLogsFollow: whoever follows gets every line once, in order, and is released when the
// attempt ends.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "--output", "never", "-c", `echo first; touch up; read go; i=0; while test $i -lt 400; do i=$((i+1)); echo line $i token=c4n4ry; done; read go; echo last`)
	if !eventually(func() bool { return exists(b.path("up")) }) {
		t.Fatal("the job isn't up")
	}
	f := b.start("logs", "settle", "--follow")
	f.says("first")
	p.goesOn()
	for i := range 400 {
		f.says(fmt.Sprintf("line %d token=***", i+1))
	}
	p.goesOn()
	f.says("last")
	if code := f.wait(); code != 0 || f.err.Len() > 0 {
		t.Errorf("it ended with %d, and said %q", code, f.err.String())
	}
	p.wait()
	if r := b.run("logs", "settle", "--follow").exits(t, 0); !strings.HasPrefix(r.out, "first\nline 1 ") || !strings.HasSuffix(r.out, "\nlast\n") {
		t.Errorf("of what has ended: %.200q", r.out)
	}
	b.run("logs", "settle", "--follow", "--json").exits(t, 64).oneLine(t)
	quiet := b.start("run", "quiet", "--", "sh", "-c", "touch quiet-up; read go")
	if !eventually(func() bool { return exists(b.path("quiet-up")) }) {
		t.Fatal("the job isn't up")
	}
	f = b.start("logs", "quiet", "-f")
	quiet.die()
	if code := f.wait(); code != 0 || !strings.Contains(f.err.String(), "nothing is kept") {
		t.Errorf("of a job that is killed: it ended with %d, and said %q", code, f.err.String())
	}
}

// TestOutputOfKilledWrapper: what was printed until a second ago outlives the wrapper.
func TestOutputOfKilledWrapper(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "-c", `echo last words; read go`)
	if !eventually(func() bool { return b.run("logs", "settle").out == "last words\n" }) {
		t.Fatal("nothing is seen of it")
	}
	p.kill()
	if run := b.ended(t, "settle"); run["reason"] != "owner_died" {
		t.Errorf("it is %v", run)
	}
	if r := b.run("logs", "settle").exits(t, 0); r.out != "last words\n" {
		t.Errorf("kept is %q", r.out)
	}
}

// TestEndBeforeTheRest: the job has ended, and something of its background keeps its output open. The end is recorded all
// the same, and a wrapper that is killed while it passes the rest on changes nothing in that.
func TestEndBeforeTheRest(t *testing.T) {
	t.Parallel()
	for name, job := range map[string]string{"short": "sleep 600 & echo $! >left; exit 3", "guarded": "sleep 600 & echo $! >left; read go; exit 3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			p := b.start("run", "settle", "--partition", "p", "--finish-wait", "1s", "-c", job)
			left := b.pidIn(t, "left")
			t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
			if name == "guarded" {
				guardOf(t, p, 0)
				p.goesOn()
			}
			for _, then := range []func(){p.kill, func() {}} {
				if run := b.ended(t, "settle:p"); run["status"] != "FAILED" || run["reason"] != "exit" || run["exit_code"] != 3.0 {
					t.Errorf("it is %v %v %v", run["status"], run["reason"], run["exit_code"])
				}
				if !runs(left) {
					t.Error("its background was ended")
				}
				then()
			}
			b.run("run", "settle", "--partition", "p", "--", "true").exits(t, 79)
		})
	}
}

// TestFollower: whatever is printed, and however it is cut, nothing is shown twice and nothing
// left out, as long as what is kept overlaps.
func TestFollower(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.IntRange(1, 200).Draw(t, "keep")
		var f follower
		var printed, shown string
		for range rapid.IntRange(1, 12).Draw(t, "looks") {
			more := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n말")), 0, keep/3, keep).Draw(t, "more") // few letters: much of it is alike
			printed += more
			end := onerun.LastBytes(printed, keep)
			text, missed := f.take(onerun.Output{Text: end, Total: int64(len(printed)), Truncated: len(end) < len(printed)})
			if shown += text; missed {
				t.Fatalf("%q is taken for a gap after %q", end, shown)
			}
			if shown != printed && len(end) >= len(more) {
				t.Fatalf("shown %q of %q", shown, printed)
			}
		}
	})
}

// TestFollowerMasked: secrets have another length than what stands for them.
func TestFollowerMasked(t *testing.T) {
	t.Parallel()
	var f, short follower
	if text, missed := short.take(onerun.Output{Text: "a\n", Total: 2}); text != "a\n" || missed {
		t.Errorf("shown %q, gap %v", text, missed)
	}
	if text, missed := short.take(onerun.Output{Text: "a\ntoken=***\n", Total: 60}); text != "token=***\n" || missed {
		t.Errorf("shown %q, gap %v", text, missed)
	}
	for _, c := range []struct {
		o      onerun.Output
		want   string
		missed bool
	}{
		{onerun.Output{Text: "one password=***\n", Total: 40}, "one password=***\n", false},
		{onerun.Output{Text: "one password=***\ntwo password=***\n", Total: 120}, "two password=***\n", false},
		{onerun.Output{Text: "one password=***\ntwo password=***\n", Total: 120}, "", false},
		{onerun.Output{Text: "two password=***\nthree\n", Total: 126, Truncated: true}, "three\n", false},
		{onerun.Output{Text: "nine\nten\n", Total: 1000, Truncated: true}, "nine\nten\n", true},
	} {
		if text, missed := f.take(c.o); text != c.want || missed != c.missed {
			t.Errorf("%q: shown %q, gap %v", c.o.Text, text, missed)
		}
	}
}
