package procfs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzTexts: of the kernel's other texts only what stands there in the kernel's own form is believed: a number that is
// none, or a line that is another's, says nothing.
func FuzzTexts(f *testing.F) {
	for _, text := range []string{
		"Name:\tx\nUid:\t1000\t0\t0\t0\n", "Uid:\n", "Uid:\t-1\t", "Name:\tUid:\t7\nUid:\t8\t", "pid:[4026531836]", "pid:[0]", "pid:[18446744073709551616]", "pid:[+1]", "time:[1]",
		"22 1 0:21 / /proc rw,nosuid - proc proc rw,hidepid=invisible\n", "22 1 0:21 / /proc rw - proc proc rw\n23 1 0:22 / /proc rw - tmpfs x rw\n", "22 1 0:21 / /proc rw shared:1 - proc proc rw,hidepid=0",
		" - ", "0123456789abcdef0123456789ABCDEF\n", "uninitialized\n", "", "\n",
	} {
		f.Add(text, uint64(4026531836), 1000)
	}
	f.Fuzz(func(t *testing.T, text string, inode uint64, uid int) {
		fuzzbound.Run(t, len(text), func() {
			if got, ok := realUID(text); ok && !strings.Contains(text, "Uid:") || !ok && got != 0 && got >= 0 && got < 1<<31 {
				t.Errorf("%q: the user is %d, %t", text, got, ok)
			}
			name := strings.NewReplacer("\n", "", "\r", "").Replace(text)
			if got, ok := realUID(fmt.Sprintf("Name:\t%s\nUmask:\t0022\nUid:\t%d\t0\t0\t0\n", name, uid)); !ok || got != uid {
				t.Errorf("of a process called %q the user is %d, want %d", name, got, uid)
			}
			if n := parseNamespace("pid", text); n != 0 && text != "pid:["+strconv.FormatUint(n, 10)+"]" && !strings.HasPrefix(text, "pid:[0") {
				t.Errorf("%q is the namespace %d", text, n)
			}
			if n := parseNamespace("pid", fmt.Sprintf("pid:[%d]", inode)); n != inode {
				t.Errorf("the namespace %d is read as %d", inode, n)
			}
			if id := machineID(text); id != "" && (len(id) != 32 || !strings.Contains(text, id)) {
				t.Errorf("%q is the machine %q", text, id)
			}
			// What lies above all others decides; a text that names no /proc could hide it all.
			if !strings.Contains(text, " /proc ") && !mountHides(text) {
				t.Errorf("%q hides nothing, and has no /proc", text)
			}
			if mountHides(text + "\n22 1 0:21 / /proc rw,nosuid shared:1 - proc proc rw,hidepid=off\n") {
				t.Errorf("%q is hidden by what lies below", text)
			}
			if !mountHides(text + "\n22 1 0:21 / /proc rw,nosuid - proc proc rw,hidepid=ptraceable\n") {
				t.Errorf("%q shows what is hidden", text)
			}
			_ = settledStat([]byte(text))
		})
	})
}
