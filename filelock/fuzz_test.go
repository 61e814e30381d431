package filelock

import (
	"bytes"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzSpool: what stands in a spool file is taken whole, for the owner that its name names, or not at all; and what is
// taken can be written and taken again.
func FuzzSpool(f *testing.F) {
	const owner = "0123456789abcdef"
	u := Unclaimed{
		Store: "postgres://h/d", StartedAt: time.Unix(1789000000, 0).UTC(), Worker: thisWorker(), Proven: []Proven{{Owner: owner, Evidence: "e"}},
		Claim: onerun.Claim{Namespace: "n", Job: "j", Partition: "p", Lock: "job/j", LockMode: onerun.LockFlock, Owner: owner, RunID: "r", Labels: map[string]string{"a": "b"}},
	}
	u.Claim.WorkerLabel = "w"
	text, endAt, err := u.encode()
	if err != nil {
		f.Fatal(err)
	}
	code := 3
	end, err := encodeEnd(NewOutcome(onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: &code, FinishedAt: u.StartedAt}))
	if err != nil {
		f.Fatal(err)
	}
	head := bytes.TrimRight(text[:endAt], " \n")
	f.Add(head, []byte(nil), []byte(nil))
	f.Add(head, end, []byte(nil))
	f.Add(head, []byte(`{"status":"RUNNING"}`), []byte("x"))
	f.Add(head, end, []byte(`{"text":"t","total":9}`+"\n"))
	f.Add([]byte(`{"owner":"`+owner+`"}`), []byte("{}"), []byte(nil))
	f.Add([]byte("null"), []byte("null"), []byte("null\n"))
	f.Add([]byte("{"), bytes.Repeat([]byte("["), 4000), []byte("\n"))
	f.Fuzz(func(t *testing.T, head, end, output []byte) {
		fuzzbound.Run(t, len(head)+len(end)+len(output), func() {
			// In blocks, as they are written; and raw, as anybody may have written them.
			blocks := append(bytes.Clone(head), bytes.Repeat([]byte(" "), (endRoom-(len(head)+1)%endRoom)%endRoom)...)
			blocks = append(append(blocks, '\n'), end...)
			blocks = append(append(blocks, bytes.Repeat([]byte(" "), max(0, endRoom-len(end)))...), output...)
			for _, text := range [][]byte{blocks, append(append(bytes.Clone(head), end...), output...)} {
				s := Spooled{Owner: owner}
				at, err := s.parse(text)
				if err != nil {
					if s.Outcome != nil || s.Begun && s.Run.Claim.RunID == "" {
						t.Errorf("%v, and yet %+v", err, s)
					}
					continue
				}
				if at%endRoom != 0 || at+endRoom > len(text) || s.Run.Claim.Owner != owner || s.Run.Claim.RunID == "" || s.Outcome != nil && !s.Begun {
					t.Errorf("its end is at %d of %d: %+v", at, len(text), s)
				}
				again, _, err := s.Run.encode()
				if err != nil {
					continue // a year that JSON has no form for
				}
				back := Spooled{Owner: owner}
				if _, err := back.parse(again); err != nil {
					t.Errorf("written again: %v", err)
				}
				if third, _, err := back.Run.encode(); err != nil || !bytes.Equal(third, again) {
					t.Errorf("%+v\nwas %+v: %v", back.Run, s.Run, err)
				}
				if s.Outcome != nil {
					end, err := encodeEnd(NewOutcome(*s.Outcome))
					if err == nil && len(end) != endRoom {
						t.Errorf("its end takes %d bytes", len(end))
					}
				}
			}
		})
	})
}

// FuzzProcLocks: of the kernel's list of locks, only whole lines of the right kind say anything.
func FuzzProcLocks(f *testing.F) {
	tag := uint64(0x4001)
	off := strconv.FormatInt(int64(tag<<traceBits|0x1234), 10)
	for _, text := range []string{
		"1: OFDLCK ADVISORY  WRITE -1 fe:00:5308612 " + off + " " + off + "\n", "2: FLOCK  ADVISORY  WRITE 99 fe:00:77 0 EOF\n", "1: -> OFDLCK ADVISORY  WRITE -1 fe:00:5308612 " + off + " " + off,
		"", "\n\n", "1: FLOCK a b c :77 d e", "1: OFDLCK ADVISORY WRITE -1 5308612 " + off + " " + off, "1: OFDLCK ADVISORY WRITE -1 a:b -" + off + " -" + off,
	} {
		f.Add([]byte(text), uint64(77), tag)
	}
	f.Fuzz(func(t *testing.T, text []byte, ino, tag uint64) {
		fuzzbound.Run(t, len(text), func() {
			held := flockIn(text, ino)
			if held && (!bytes.Contains(text, []byte("FLOCK")) || !bytes.Contains(text, strconv.AppendUint([]byte{':'}, ino, 10))) {
				t.Errorf("%q tells of a flock on %d", text, ino)
			}
			found := rangesIn(text, tag)
			for _, r := range found {
				if uint64(r.off)>>traceBits != tag || !bytes.Contains(text, strconv.AppendInt(nil, r.off, 10)) && r.off != 0 {
					t.Errorf("%q has a trace at %d, of %x", text, r.off, tag)
				}
			}
			if len(found) > bytes.Count(text, []byte("OFDLCK")) || !reflect.DeepEqual(rangesIn(append(bytes.Clone(text), "\n9: POSIX"...), tag), found) {
				t.Errorf("%q has %d traces", text, len(found))
			}
		})
	})
}
