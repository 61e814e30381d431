package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// FuzzGuardOrder: what comes through a guard's pipe is an order on one line, or an error; the rest of the pipe is left for
// the watch.
func FuzzGuardOrder(f *testing.F) {
	good, err := json.Marshal(GuardOrder{Tree: Tree{Group: procfs.Identity{PID: 7, StartTicks: 8}, Mark: [2]string{"A", "b"}}, Deadlines: Deadlines{TermAt: time.Second}, More: json.RawMessage(`{"x":1}`)})
	if err != nil {
		f.Fatal(err)
	}
	for _, line := range []string{string(good), "", "null", "{}", "[", `{"Tree":null}`, `{"TermAt":1e99}`, `{"More":`} {
		f.Add([]byte(line), []byte(endLine))
	}
	f.Fuzz(func(t *testing.T, line, rest []byte) {
		fuzzbound.Run(t, len(line)+len(rest), func() {
			if _, err := ReadGuardOrder(bufio.NewReader(bytes.NewReader(bytes.ReplaceAll(line, []byte("\n"), nil)))); err == nil {
				t.Errorf("half of a line is an order: %q", line)
			}
			line = append(bytes.ReplaceAll(line, []byte("\n"), []byte(" ")), '\n')
			pipe := bufio.NewReader(bytes.NewReader(append(bytes.Clone(line), rest...)))
			o, err := ReadGuardOrder(pipe)
			if left, e := io.ReadAll(pipe); e != nil || !bytes.Equal(left, rest) {
				t.Errorf("%q: it leaves %q of %q, %v", line, left, rest, e)
			}
			if err != nil {
				return
			}
			again, err := json.Marshal(o)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if back, err := ReadGuardOrder(bufio.NewReader(bytes.NewReader(append(again, '\n')))); err != nil || back.Tree != o.Tree || back.TermAt != o.TermAt || back.Lease != o.Lease {
				t.Errorf("%q is %+v, and read back %+v: %v", line, o, back, err)
			}
		})
	})
}
