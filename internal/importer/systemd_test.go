package importer

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/onerun-dev/onerun/schedule"
)

// The calendar events of systemd.time(7), and when systemd-analyze calendar --base-time="2026-01-01 UTC" says that they are.
func TestCalendarEvents(t *testing.T) {
	for _, c := range []struct{ event, expr, next string }{
		{"minutely", "* * * * *", "2026-01-01 00:01:00"},
		{"hourly", "0 * * * *", "2026-01-01 01:00:00"},
		{"Daily", "0 0 * * *", "2026-01-02 00:00:00"},
		{"weekly", "0 0 * * MON", "2026-01-05 00:00:00"},
		{"monthly", "0 0 1 * *", "2026-02-01 00:00:00"},
		{"quarterly", "0 0 1 1,4,7,10 *", "2026-04-01 00:00:00"},
		{"semi-annually", "0 0 1 1,7 *", "2026-07-01 00:00:00"},
		{"yearly", "0 0 1 1 *", "2027-01-01 00:00:00"},
		{"Mon..Fri 22:30", "30 22 * * MON-FRI", "2026-01-01 22:30:00"},
		{"Mon-Fri 10:00", "0 10 * * MON-FRI", "2026-01-01 10:00:00"},
		{"Sat,Sun 20:00", "0 20 * * SAT,SUN", "2026-01-03 20:00:00"},
		{"Wednesday", "0 0 * * WED", "2026-01-07 00:00:00"},
		{"Sat *-*-1..7 18:00:00", "0 18 * * SAT#1", "2026-01-03 18:00:00"},
		{"Sat,Sun *-*-8..14 18:00", "0 18 * * SAT#2,SUN#2", "2026-01-10 18:00:00"},
		{"Mon *-05~07/1", "0 0 * 5 MONL", "2026-05-25 00:00:00"},
		{"Mon..Fri *-*-01", "0 0 */31,1 * MON-FRI", "2026-04-01 00:00:00"},
		{"Sun *-*-25", "0 0 25 * */7,SUN", "2026-01-25 00:00:00"},
		{"Mon..Sun *-*-25", "0 0 25 * *", "2026-01-25 00:00:00"},
		{"Mon..Fri 08..19:00/20", "0/20 8-19 * * MON-FRI", "2026-01-01 08:00:00"},
		{"*-*-* *:00/15:00", "0/15 * * * *", "2026-01-01 00:15:00"},
		{"0/6:00:00", "0 0/6 * * *", "2026-01-01 06:00:00"},
		{"*:*:30", "30 * * * * *", "2026-01-01 00:00:30"},
		{"*:*", "* * * * *", "2026-01-01 00:01:00"},
		{"12-25", "0 0 25 12 *", "2026-12-25 00:00:00"},
		{"*-1/3-5 4:5", "5 4 5 1/3 *", "2026-01-05 04:05:00"},
		{"*-02~03", "0 0 L-2 2 *", "2026-02-26 00:00:00"},
		{"*-*~1", "0 0 L * *", "2026-01-31 00:00:00"},
		{"*-*~1..3", "0 0 L,L-1,L-2 * *", "2026-01-29 00:00:00"},
		{"*-*~07/3", "0 0 L,L-3,L-6 * *", "2026-01-25 00:00:00"},
		{"*-*~7..10/2", "0 0 L-6,L-8 * *", "2026-01-23 00:00:00"},
		{"*-*~*", "0 0 * * *", "2026-01-02 00:00:00"},
	} {
		expr, zone, _, r := calendarEvent(c.event)
		if r != nil || expr != c.expr || zone != "" {
			t.Errorf("%s: %q, zone %q, %v; want %q", c.event, expr, zone, r, c.expr)
			continue
		}
		cron, err := schedule.ParseCron(expr)
		if err != nil {
			t.Errorf("%s: %v", c.event, err)
			continue
		}
		at, _ := schedule.Schedule{Cron: cron, Zone: time.UTC}.Next(newYear)
		if got := at.UTC().Format(time.DateTime); got != c.next {
			t.Errorf("%s: next %s, want %s", c.event, got, c.next)
		}
	}
	if expr, zone, _, r := calendarEvent("Mon..Fri 12:00 Asia/Yekaterinburg"); r != nil || zone != "Asia/Yekaterinburg" || expr != "0 12 * * MON-FRI" {
		t.Errorf("with a zone: %q %q %v", expr, zone, r)
	}
	if expr, zone, _, r := calendarEvent("daily UTC"); r != nil || zone != "UTC" || expr != "0 0 * * *" {
		t.Errorf("with a zone: %q %q %v", expr, zone, r)
	}
	for _, event := range []string{
		"", "@1000", "2026-01-01", "2026..2028-01-01", "*:0/7.5", "*:*:0.5", "Fri *-*-13", "Mon *-*~2", "10", "W 10:00", "Fri..Mon", "22..2:00", "25:00", "*-13-1",
		"*-*-* 4:5 Mars/Crater", "*-*-0", "a b c d e f", "1:2:3:4", "*-*-* */2:00", "Mon Tue", "10:00 11:00", "*-*-1,,2", ":", "-", "~", ",", "..", "/",
		"*-02-30", "1:0/0", "%i", "999999999999:00",
	} {
		if expr, _, _, r := calendarEvent(event); r == nil || r.do == "" {
			t.Errorf("%q became %q, %v", event, expr, r)
		}
	}
}

func TestTimespans(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15min": 15 * time.Minute, "1d": 24 * time.Hour, "1h 30min": 90 * time.Minute, "90": 90 * time.Second, "1.5h": 90 * time.Minute, "2weeks": 14 * 24 * time.Hour,
		"5s 200ms": 5200 * time.Millisecond, "1h30m": 90 * time.Minute, "0": 0, "3 hours": 3 * time.Hour,
	} {
		if got, r := timespan(text); r != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, r, want)
		}
	}
	for _, text := range []string{"", "infinity", "x", "1x", "-1", "1..2s", "s", "99999999999999y", "1e5", "."} {
		if got, r := timespan(text); r == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// timerOf imports a timer, t.timer, and its service.
func timerOf(t *testing.T, timer, service string) Result {
	t.Helper()
	files := fstest.MapFS{}
	if service != "" {
		files["t.service"] = &fstest.MapFile{Data: []byte(service)}
	}
	r := Systemd("dir/t.timer", []byte(timer), Options{Zone: "UTC", Files: files})
	readBack(t, r)
	everyLine(t, timer, r)
	return r
}

// What is executed is what systemd executes: systemd.exec(5), systemd.service(5), on quotes, variables and several commands.
func TestServiceExecuted(t *testing.T) {
	for _, c := range []struct{ service, want string }{
		{"ExecStart=/bin/echo a  'b  c' \"d\\\"e\" f\\x20g \\101", "a b  c d\"e f g A\n"},
		{"ExecStart=/bin/echo $$HOME %%n 100%%", "$HOME %n 100%\n"},
		{"ExecStart=/bin/echo %n %p %N", "t.service t t\n"},
		{"Environment=A=x \"B=y  z\" 'C=it is'\nExecStart=/usr/bin/printf '%%s|' ${A} ${B} $B x${C}y '$C'", "x|y  z|y|z|xit isy|it|is|"},
		{"Environment=A=1\nEnvironment=A=2\nExecStart=/bin/echo ${A}", "2\n"},
		{"Environment=A=1\nExecStart=:/bin/echo ${A} $A", "${A} $A\n"},
		{"WorkingDirectory=/usr\nExecStart=/bin/pwd", "/usr\n"},
		{"WorkingDirectory=-/nowhere/at/all\nExecStart=/bin/echo here", "here\n"},
		{"EnvironmentFile=-/nowhere\nExecStart=/bin/echo here", "here\n"},
		{"UMask=0027\nExecStart=/bin/sh -c umask", "0027\n"},
		{"Type=oneshot\nExecStart=/bin/echo one\nExecStart=-/bin/false\nExecStart=/bin/echo two; echo", "one\ntwo; echo\n"},
		{"ExecStartPre=/bin/echo before\nExecStart=/bin/echo it\nExecStartPost=/bin/echo after", "before\nit\nafter\n"},
		{"ExecStart=/bin/false\nExecStart=\nExecStart=/bin/echo instead", "instead\n"},
		{"ExecStart=@/bin/echo other-name arg", "arg\n"},
		{"ExecStart=/bin/echo one \\\n# between\n  two \\\n three", "one two three\n"},
		{"ExecStart=/bin/sh -c 'echo \"$$0 $$1\"; echo \"*\"' zero one", "zero one\n*\n"},
		{"User=root\nGroup=\nExecStart=/bin/echo root", "root\n"},
		{"ExecStart=/bin/echo \\; a", "; a\n"},
	} {
		r := timerOf(t, "[Timer]\nOnCalendar=daily\n", "[Service]\n"+c.service)
		if len(r.jobs) != 1 || r.Lost() {
			t.Errorf("%q: %d jobs, %v", c.service, len(r.jobs), r.Reports)
			continue
		}
		if got := executed(t, r.jobs[0]); got != c.want {
			t.Errorf("%q: it prints %q, want %q", c.service, got, c.want)
		}
	}
}

// What can't be translated is told with its line, in the file where it stands.
func TestSystemdReports(t *testing.T) {
	const service = "[Service]\nExecStart=/bin/true\n"
	for _, c := range []struct{ timer, service, want string }{
		{"[Timer]\nOnCalendar=daily\n", "", "dir/t.timer: the timer starts t.service"},
		{"[Timer]\nOnCalendar=daily\nUnit=other.service\n", service, "dir/t.timer:3: the timer starts other.service"},
		{"[Timer]\nOnCalendar=daily\nUnit=some.target\n", service, "dir/t.timer:3: the timer starts some.target, which is no service"},
		{"[Timer]\nOnCalendar=daily\nUnit=../../etc/passwd.service\n", service, "dir/t.timer:3: "},
		{"[Timer]\nOnCalendar=daily\nUnit=t@%i.service\n", service, "dir/t.timer:3: %i is the instance"},
		{"[Timer]\nOnCalendar=2026-01-01\n", service, "dir/t.timer:2: OnCalendar=2026-01-01: it is for the year 2026"},
		{"[Timer]\nOnCalendar=daily\nOnClockChange=yes\n", service, "dir/t.timer:3: OnClockChange=yes"},
		{"[Timer]\nOnCalendar=daily\nWakeSystem=true\n", service, "dir/t.timer:3: WakeSystem=true"},
		{"[Timer]\nOnCalendar=daily\nRandomizedDelaySec=500ms\n", service, "dir/t.timer:3: RandomizedDelaySec: "},
		{"[Timer]\nOnUnitActiveSec=500ms\n", service, "dir/t.timer:2: "},
		{"[Timer]\nOnCalendar=daily\nnonsense\n", service, "dir/t.timer:3: it is neither"},
		{"OnCalendar=daily\n[Timer]\nOnCalendar=daily\n", service, "dir/t.timer:1: OnCalendar stands before"},
		{"[Timer]\nOnCalendar=daily\n[Unit]\nConditionHost=a\n", service, "dir/t.timer:4: ConditionHost=a"},
		{"[Timer]\nOnCalendar=daily\n[Other]\nA=b\n", service, "dir/t.timer:4: A= in [Other]"},
		{"[Unit]\nDescription=x\n", service, "dir/t.timer: there is no [Timer]"},
		{"[Timer]\nOnCalendar=daily\n", "[Service]\nType=oneshot\n", "dir/t.service: the service has no ExecStart="},
		{"[Timer]\nOnCalendar=daily\n", service + "Type=forking\n", "dir/t.service:3: Type=: Type=forking"},
		{"[Timer]\nOnCalendar=daily\n", service + "TimeoutStopSec=infinity\n", "dir/t.service:3: TimeoutStopSec=: what is asked to end is killed after grace"},
		{"[Timer]\nOnCalendar=daily\n", service + "TimeoutSec=0\n", "dir/t.service:3: TimeoutSec=: what is asked to end is killed after grace"},
		{"[Timer]\nOnCalendar=daily\n", service + "ExecStopPost=/bin/x\n", "dir/t.service:3: ExecStopPost="},
		{"[Timer]\nOnCalendar=daily\n", service + "SuccessExitStatus=1\n", "dir/t.service:3: SuccessExitStatus="},
		{"[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=/bin/echo 'open\n", "dir/t.service: line 2, ExecStart=: a quote is not closed"},
		{"[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=/bin/a ; /bin/b\n", "dir/t.service: line 2, ExecStart=: a ; parts several commands"},
		{"[Timer]\nOnCalendar=daily\n", "[Service]\nExecStart=/bin/echo %h\n", "dir/t.service:2: ExecStart=: systemd puts something into the place of %h"},
		{"[Timer]\nOnCalendar=daily\n", "[Service]\nEnvironment=A-B=1\nExecStart=/bin/true\n", "dir/t.service:2: Environment=: "},
	} {
		r := timerOf(t, c.timer, c.service)
		found := false
		for _, one := range r.Reports {
			found = found || one.Lost && strings.HasPrefix(one.String(), c.want)
		}
		if !found {
			t.Errorf("%q with %q: %v, want %q", c.timer, c.service, r.Reports, c.want)
		}
	}
	r := Systemd("t.service", []byte(service), Options{Zone: "UTC"})
	readBack(t, r)
	if !r.Lost() || len(r.jobs) > 0 || len(r.Reports) != 1 {
		t.Errorf("a service: %v", r.Reports)
	}
}

// TestServiceAsAWhole: a service of which a command, or how it is executed, isn't translated is no job, for that would do something
// else; what is beside its work is left out.
func TestServiceAsAWhole(t *testing.T) {
	for line, jobs := range map[string]int{
		"ExecStart=/bin/second %h":        0,
		"ExecStartPre=/bin/first %h":      0,
		"ExecStartPost=/bin/last %q":      0,
		"User=%j":                         0,
		"WorkingDirectory=%h":             0,
		"Environment=A-B=1":               0,
		"Environment=A=%b":                0,
		"EnvironmentFile=/etc/default/%H": 0,
		"SuccessExitStatus=24":            1,
		"ExecStopPost=/bin/true":          1,
		"MemoryMax=1G":                    1,
	} {
		r := timerOf(t, "[Timer]\nOnCalendar=daily\n", "[Service]\nType=oneshot\nExecStart=/bin/true\n"+line+"\n")
		if len(r.jobs) != jobs || jobs == 0 && !r.Lost() {
			t.Errorf("%s: %d jobs, %v", line, len(r.jobs), r.Reports)
		}
	}
}

// TestInstances: what an instance's name stands for, as systemd.unit(5) says.
func TestInstances(t *testing.T) {
	for _, c := range []struct{ unit, text, want string }{
		{`t@a\x2db-c.service`, "%i %I %p %P %n", `a\x2db-c a-b/c t t t@a\x2db-c.service`},
		{"my-shop.service", "[%i][%I] %p %P", "[][] my-shop my/shop"},
		{"t@.service", "%i", ""},
	} {
		got, r := parseUnitName(c.unit).specifiers(c.text)
		if got != c.want || (r == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.unit, got, r, c.want)
		}
	}
}

func TestSystemdSettings(t *testing.T) {
	const oneshot = "[Service]\nType=oneshot\nExecStart=/bin/true\n"
	for _, c := range []struct{ timer, service, want string }{
		{"OnCalendar=daily\nPersistent=true", oneshot, "schedule 0 0 * * *; catch_up [[policy latest]]; command [/bin/true]"},
		{"OnCalendar=daily\nPersistent=false", oneshot, "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]"},
		{"OnCalendar=daily\nRandomizedDelaySec=30min", oneshot, "schedule 0 0 * * *; catch_up [[policy none]]; jitter 30m; command [/bin/true]"},
		{"OnCalendar=daily\nOnCalendar=\nOnCalendar=hourly", oneshot, "schedule 0 * * * *; catch_up [[policy none]]; command [/bin/true]"},
		{"OnBootSec=15min\nOnUnitActiveSec=1d", oneshot, "schedule @every 24h; catch_up [[policy none]]; command [/bin/true]"},
		{"OnStartupSec=1", oneshot, "schedule @reboot; command [/bin/true]"},
		{"OnCalendar=daily", oneshot + "TimeoutStartSec=5min\nTimeoutStopSec=7", "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]; timeout 5m; grace 7s"},
		{"OnCalendar=daily", "[Service]\nExecStart=/bin/true\nTimeoutStartSec=5min\nRuntimeMaxSec=1h", "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]; timeout 1h"},
		{"OnCalendar=daily", oneshot + "TimeoutStartSec=3h\nRuntimeMaxSec=1h", "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]; timeout 3h"},
		{"OnCalendar=daily", oneshot + "TimeoutSec=90", "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]; timeout 90s; grace 90s"},
		{"OnCalendar=daily", "[Service]\nExecStart=/bin/true\nTimeoutSec=90", "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]; grace 90s"},
		{"OnCalendar=daily", oneshot + "TimeoutStartSec=infinity", "schedule 0 0 * * *; catch_up [[policy none]]; command [/bin/true]"},
		{"OnCalendar=daily", oneshot + "User=app\nGroup=staff", "schedule 0 0 * * *; catch_up [[policy none]]; command [runuser -u app -g staff -- /bin/sh -c HOME=~app USER=app LOGNAME=app; export HOME USER LOGNAME; /bin/true]"},
	} {
		r := timerOf(t, "[Timer]\n"+c.timer, c.service)
		var got []string
		for _, j := range r.jobs {
			for _, s := range j.settings {
				switch {
				case s.list != nil:
					got = append(got, s.key+" ["+strings.Join(s.list, " ")+"]")
				case s.pairs != nil:
					got = append(got, s.key+" [["+s.pairs[0][0]+" "+s.pairs[0][1]+"]]")
				default:
					got = append(got, s.key+" "+s.text)
				}
			}
		}
		if text := strings.Join(got, "; "); text != c.want || r.Lost() {
			t.Errorf("%q with %q:\n%s, want\n%s\n%v", c.timer, c.service, text, c.want, r.Reports)
		}
	}
}

// Two times that fall together are one start with systemd, and would be two here.
func TestTimesThatMeet(t *testing.T) {
	files := fstest.MapFS{"t.service": &fstest.MapFile{Data: []byte("[Service]\nExecStart=/bin/true\n")}}
	for timer, want := range map[string]string{
		"OnCalendar=hourly\nOnCalendar=daily":                                         "t.timer:3: the times of line 2 and of this one are the same at 2026-01-02T00:00:00Z",
		"OnCalendar=Mon..Fri 22:30\nOnCalendar=Sat,Sun 20:00":                         "",
		"OnCalendar=minutely\nOnBootSec=5":                                            "",
		"OnCalendar=*-*-* 09:00 Asia/Seoul\nOnCalendar=*:0/15":                        "t.timer:3: the times of line 2 and of this one are the same at 2026-01-02T00:00:00Z",
		"OnCalendar=*-02-29 12:00\nOnCalendar=Mon 12:00":                              "t.timer:3: the times of line 2 and of this one are the same at 2044-02-29T12:00:00Z",
		"OnCalendar=*-*-* 01:10\nOnCalendar=Sun 02:20\nOnCalendar=Sun *-*-* 02:20:00": "t.timer:4: the times of line 3 and",
	} {
		r := Systemd("t.timer", []byte("[Timer]\n"+timer), Options{Zone: "UTC", Files: files, Now: newYear})
		readBack(t, r)
		if want == "" && len(r.Reports) > 0 || want != "" && (len(r.Reports) != 1 || r.Lost() || !strings.HasPrefix(r.Reports[0].String(), want)) {
			t.Errorf("%q: %v, want %q", timer, r.Reports, want)
		}
	}
}
