package schedule

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestLoadZone(t *testing.T) {
	for _, name := range []string{"UTC", "Etc/UTC", "GMT", "Asia/Seoul", "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+9", "EST5EDT", "Europe/Stockholm"} {
		loc, err := LoadZone(name)
		if err != nil || loc.String() != name {
			t.Errorf("%s = %v, %v", name, loc, err)
		}
	}
	bad := []string{
		"Europe/Nowhere", "Seoul", "KST", "KST-9", "<+09>-9", "+09:00", "UTC+9", "Z",
		"Local", "LOCAL", " local", "localtime", "posixrules", "Factory", "right/Asia/Seoul", "posix/Asia/Seoul",
		"../x", "Asia/../Asia/Seoul", "/etc/localtime", "/usr/share/zoneinfo/Asia/Seoul", "./Asia/Seoul", "Asia/Seoul/", "/Asia/Seoul", "Asia//Seoul", "Asia", `Asia\Seoul`, `..\x`, `C:\zone`,
		"zone.tab", "tzdata.zi", "zone1970.tab", ":Asia/Seoul", "Asia/Seoul ", "Asia/Seoul\n", "Asia/Seoul\x00", "Asia/Ｓeoul", "\xff", ".", "..", "/", "-", "+",
		strings.Repeat("A", 5000), strings.Repeat("A/", 30) + "A",
	}
	if runtime.GOOS == "linux" { // elsewhere file names may not be case-sensitive
		bad = append(bad, "asia/seoul", "utc")
	}
	for _, name := range bad {
		loc, err := LoadZone(name)
		if loc != nil {
			t.Errorf("%q came to %v", name, loc)
		}
		if msg := usage(t, err, "--tz"); len(name) < 100 && !strings.Contains(msg, strings.Trim(quote(name), `"`)) {
			t.Errorf("%q is not named in %q", name, msg)
		}
	}
	_, err := LoadZone("")
	if msg := usage(t, err, "--tz"); !strings.Contains(msg, "ONERUN_TZ") || !strings.Contains(msg, "local") {
		t.Errorf("no zone: %q", msg)
	}
	_, err = LoadZone("Local")
	if msg := usage(t, err, "--tz"); !strings.Contains(msg, `spelled "local"`) {
		t.Errorf("Local: %q", msg)
	}
}

func TestUnixHostZone(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	berlin, garbage, missing := file("berlin", tzif(3600)), file("garbage", "no zone"), filepath.Join(dir, "missing")
	tests := []struct {
		tz        string
		set       bool
		localtime string
		offset    int    // seconds east of UTC, if it is a zone
		refusal   string // if it is none
	}{
		{"", false, berlin, 3600, ""},
		{"Asia/Seoul", true, missing, 9 * 3600, ""},
		{":Asia/Seoul", true, missing, 9 * 3600, ""},
		{"UTC", true, berlin, 0, ""},
		{berlin, true, missing, 3600, ""},
		{":" + berlin, true, missing, 3600, ""},
		{"", false, missing, 0, "TZ is not set"},
		{"", false, garbage, 0, "not a zone file"},
		{"", false, dir, 0, "cannot be read"},
		{"", true, berlin, 0, "TZ is set but empty"},
		{":", true, berlin, 0, "TZ is set but empty"},
		{"Europe/Nowhere", true, berlin, 0, `"Europe/Nowhere"`},
		{"KST-9", true, berlin, 0, `"KST-9"`},
		{"local", true, berlin, 0, `"local"`},
		{"right/Asia/Seoul", true, berlin, 0, `"right/Asia/Seoul"`},
		{"../../x\n", true, berlin, 0, `"../../x\n"`},
		{missing, true, berlin, 0, "cannot be read"},
	}
	for _, tt := range tests {
		loc, err := unixHostZone(tt.tz, tt.set, tt.localtime)
		if tt.refusal != "" {
			if msg := usage(t, err, "--tz"); loc != nil || !strings.Contains(msg, tt.refusal) || !strings.Contains(msg, "UTC if that is meant") {
				t.Errorf("TZ=%q (%t): %v, %q", tt.tz, tt.set, loc, msg)
			}
			continue
		}
		if err != nil {
			t.Errorf("TZ=%q (%t): %v", tt.tz, tt.set, err)
			continue
		}
		if _, offset := instant.In(loc).Zone(); offset != tt.offset {
			t.Errorf("TZ=%q (%t): offset %d, want %d", tt.tz, tt.set, offset, tt.offset)
		}
	}
}

// tzif is the smallest zone file of RFC 9636, version 1: one offset for ever.
func tzif(offset int32) string {
	header := "TZif\x00" + strings.Repeat("\x00", 15) // magic, version, reserved
	for _, n := range []byte{0, 0, 0, 0, 1, 4} {      // counts: one type, four bytes of abbreviation
		header += "\x00\x00\x00" + string(n)
	}
	o := uint32(offset)
	return header + string([]byte{byte(o >> 24), byte(o >> 16), byte(o >> 8), byte(o), 0, 0}) + "TST\x00"
}

// childVar makes the test program resolve one Spec and end, so that it can be
// started under another TZ: package time reads that once a process.
const childVar = "SCHEDULE_TEST_SPEC"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVar); spec != "" {
		var s Spec
		if err := json.Unmarshal([]byte(spec), &s); err != nil {
			panic(err)
		}
		slot, err := s.Resolve(instant)
		fmt.Printf("%s|%s|%v", slot.Partition, slot.BusinessDate, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func resolveUnder(t *testing.T, tz string, s Spec) string {
	t.Helper()
	spec, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+string(spec), "TZ="+tz, "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Case B03: a host's zone has no effect on a job's.
func TestHostZoneHasNoEffect(t *testing.T) {
	specs := []Spec{
		{Date: "today", Zone: "UTC", At: "2022-10-30T00:59:00Z"},
		{Date: "today", Zone: "UTC", At: "2022-10-30T01:30:00Z"},
		{Period: "hour", Zone: "UTC", At: "2022-10-30T01:30:00Z"},
		{Period: "day", Zone: "America/New_York", DayStart: "06:00"},
		{Period: "5m"},
	}
	for _, s := range specs {
		want := resolve(t, s)
		for _, tz := range []string{"Europe/London", "Pacific/Kiritimati"} {
			if got := resolveUnder(t, tz, s); got != want.Partition+"|"+want.BusinessDate+"|<nil>" {
				t.Errorf("TZ=%s: %+v came to %s, want %+v", tz, s, got, want)
			}
		}
	}
	for _, s := range []Spec{{Date: "today"}, {Period: "day"}} {
		if got := resolveUnder(t, "Asia/Seoul", s); !strings.Contains(got, "--tz") {
			t.Errorf("TZ stood in for --tz: %s", got)
		}
	}
}

func TestLocalIsTheHostZone(t *testing.T) {
	if runtime.GOOS == "windows" {
		if loc, err := LoadZone("local"); err != nil || loc != time.Local {
			t.Errorf("local = %v, %v", loc, err)
		}
		return
	}
	s := Spec{Period: "hour", Zone: "local"}
	for tz, want := range map[string]string{
		"Asia/Seoul":          "2026-09-15T10+09:00|",
		"America/Los_Angeles": "2026-09-14T18-07:00|",
		"Europe/Nowhere":      "Europe/Nowhere",
		"":                    "empty",
	} {
		if got := resolveUnder(t, tz, s); !strings.Contains(got, want) {
			t.Errorf("TZ=%q: %s, want %s", tz, got, want)
		}
	}
}
