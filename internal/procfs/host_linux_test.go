package procfs

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestThisHost(t *testing.T) {
	h, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	name, _ := os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pidNS, _ := os.Readlink("/proc/self/ns/pid")
	timeNS, _ := os.Readlink("/proc/self/ns/time")
	want := Host{
		Name: name, Machine: h.Machine, Boot: strings.TrimSpace(string(boot)),
		PIDNS: parseNamespace("pid", pidNS), TimeNS: parseNamespace("time", timeNS),
	}
	if h != want || h.Boot == "" || h.PIDNS == 0 {
		t.Errorf("got %+v, want %+v", h, want)
	}
	if b, err := os.ReadFile("/etc/machine-id"); (h.Machine != "") != (err == nil && machineID(string(b)) != "") {
		t.Errorf("machine id %q of file %q (%v)", h.Machine, b, err)
	}
}

func TestNamespacesDiffer(t *testing.T) {
	requireRoot(t)
	h, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "readlink", "/proc/self/ns/pid").Output()
	if err != nil {
		t.Fatal(err)
	}
	if other := parseNamespace("pid", strings.TrimSpace(string(out))); other == 0 || other == h.PIDNS {
		t.Errorf("own namespace %d, the other one %d", h.PIDNS, other)
	}
}

func TestMachineID(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	for text, want := range map[string]string{
		id + "\n": id, id: id, " " + id + "\r\n": id, "uninitialized\n": "", "": "", id[1:]: "", id + "0": "", "\x00": "",
		strings.Repeat("g", 32): "", "../../../../../../../../etc/shad": "",
	} {
		if got := machineID(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestParseNamespace(t *testing.T) {
	for link, want := range map[string]uint64{
		"pid:[4026531836]": 4026531836, "pid:[0]": 0, "pid:[]": 0, "pid:[x]": 0, "pid:[1": 0, "pid:1]": 0, "": 0, "time:[4]": 0,
		"pid:[-1]": 0, "pid:[99999999999999999999]": 0,
	} {
		if got := parseNamespace("pid", link); got != want {
			t.Errorf("%q: got %d", link, got)
		}
	}
}

func TestMountHides(t *testing.T) {
	const root = "22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n"
	proc := func(options string) string {
		return "23 22 0:21 / /proc rw,nosuid,relatime shared:2 master:1 - proc proc " + options + "\n"
	}
	for text, want := range map[string]bool{
		root + proc("rw"): false, root + proc("rw,hidepid=0"): false, root + proc("rw,hidepid=off"): false,
		root + proc("rw,hidepid=1"): false, root + proc("rw,hidepid=noaccess"): false, // every process is listed
		root + proc("rw,hidepid=2"): true, root + proc("rw,gid=5,hidepid=invisible"): true, root + proc("rw,hidepid=4"): true,
		root + proc("rw,hidepid=ptraceable"): true, root + proc("rw,hidepid=newer"): true,
		root + proc("rw,hidepid=2") + proc("rw"): false, root + proc("rw") + proc("rw,hidepid=2"): true,
		root: true, "": true, "garbage - \n - - -\n": true,
		strings.ReplaceAll(proc("rw"), "proc proc", "tmpfs x"): true,
	} {
		if got := mountHides(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func BenchmarkSelf(b *testing.B) {
	for b.Loop() {
		if _, err := Self(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkThisHost(b *testing.B) {
	for b.Loop() {
		if _, err := ThisHost(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGroupGone is what a claim pays for a wrapper that is dead and whose group is empty.
func BenchmarkGroupGone(b *testing.B) {
	for b.Loop() {
		if l, _, why := GroupGone(Identity{PID: 1 << 21, StartTicks: 1}); l != Dead {
			b.Fatal(why)
		}
	}
}
