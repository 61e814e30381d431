package kvledger_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzRecords: whatever somebody else has written into one of the ledger's records, every question is answered or
// refused, soon: a ledger that can't be read is an error, and never a crash of the job's owner.
func FuzzRecords(f *testing.F) {
	for _, value := range []string{
		"", "null", "{}", "[]", "1", `"x"`, `{"Owner":"x"}`, `{"Namespace":"ns","Lock":"job/j","Token":-1,"Owner":"x","RunID":"r","Attempt":1}`, `{"Run":{"Status":"RUNNING"}}`,
		`{"Run":{"RunID":"r","Status":"FAILED","Attempt":-1},"Attempts":[],"Earlier":9}`, `{"RunID":""}`, `{"RunID":"../x"}`, `{"Count":-1}`, `{"ID":9223372036854775807,"Hash":"x"}`,
		`{"Attempts":[{"Output":{"Chunks":1000000000,"Write":"w"}}]}`, `{"Name":"n","Version":-1}` + "\ntext", `{"format":2}`, `{"Earlier":1000000000,"Attempts":[{}],"Run":{"Attempt":1000000001}}`,
	} {
		for i := range 8 {
			f.Add(i, []byte(value))
		}
	}
	f.Fuzz(func(t *testing.T, which int, value []byte) {
		s := newSpace(t)
		l := open(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := granted(t, l, claim("j", "p"))
		code := 3
		if err := l.Finish(ctx, first.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: &code, Output: &onerun.Output{Text: "x", Total: 1}}); err != nil {
			t.Fatal(err)
		}
		second := granted(t, l, claim("j", ""))
		_, _ = l.Claim(ctx, claim("j", "")) // refused, and counted
		if _, err := l.SetNote(ctx, "ns", "n", 0, "text"); err != nil {
			t.Fatal(err)
		}
		keys := slices.Clone(s.order)
		key := keys[int(uint(which)%uint(len(keys)))]
		s.mu.Lock()
		e := s.keys[key]
		s.version++
		e.Value, e.Version = bytes.Clone(value), s.version
		s.keys[key] = e
		s.mu.Unlock()
		fuzzbound.Run(t, 256*len(value), func() {
			_, err := l.Heartbeat(ctx, second.Lease)
			said(t, key, err)
			_, err = l.Runs(ctx, onerun.Query{Namespace: "ns"})
			said(t, key, err)
			_, err = l.Runs(ctx, onerun.Query{Namespace: "ns", Job: "j", Statuses: []onerun.Status{onerun.Failed}})
			said(t, key, err)
			_, err = l.Detail(ctx, "ns", first.Run.RunID)
			said(t, key, err)
			_, err = l.Locks(ctx, "ns")
			said(t, key, err)
			_, err = l.Skips(ctx, "ns", "j", "")
			said(t, key, err)
			_, err = l.Notes(ctx, "ns", "")
			said(t, key, err)
			for _, c := range []onerun.Claim{claim("j", "p"), claim("j", ""), claim("k", "")} {
				_, err = l.Claim(ctx, c)
				said(t, key, err)
			}
			said(t, key, l.Finish(ctx, second.Lease, onerun.Outcome{Status: onerun.Succeeded}))
			s.advance(2 * time.Minute) // the owner's time is over: it is judged by its record
			_, err = l.Claim(ctx, claim("j", ""))
			said(t, key, err)
		})
	})
}

// said checks that an error is one for people.
func said(t *testing.T, key string, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: more than one line: %v", key, err)
	}
}
