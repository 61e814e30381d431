package importer

import (
	"os/exec"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// crontabJobs are the jobs of a crontab, by the names they get.
func crontabJobs(t *testing.T, text string, o Options) (map[string]job, Result) {
	t.Helper()
	r := Crontab("test.crontab", []byte(text), o)
	readBack(t, r)
	everyLine(t, text, r)
	jobs := map[string]job{}
	for _, j := range r.jobs {
		jobs[j.name] = j
	}
	return jobs, r
}

func (j job) get(key string) (s setting) {
	for _, s = range j.settings {
		if s.key == key {
			return s
		}
	}
	return setting{}
}

// executed is what a job prints when it is executed as onerun does it.
func executed(t *testing.T, j job) string {
	t.Helper()
	argv := j.get("command").list
	if argv == nil {
		argv = []string{"/bin/sh", "-c", j.get("shell").text}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/"}
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%q: %v", argv, err)
	}
	return string(out)
}

// What a command does is what it does with cron: crontab(5) on %, variables and shells.
func TestCrontabExecuted(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`* * * * * cat%one%two`, "one\ntwo\n"},
		{`* * * * * cat%one%`, "one\n"},
		{`* * * * * cat%one%%`, "one\n\n"},
		{`* * * * * cat%%`, "\n"},
		{`* * * * * cat%`, ""},
		{`* * * * * cat; echo end%it's "in" $HOME \% \x \\`, "it's \"in\" $HOME % \\x \\\\\nend\n"},
		{`* * * * * echo 50\%`, "50%\n"},
		{`* * * * * echo '50\%' "a\%b"`, "50% a%b\n"},
		{`* * * * * printf '\%s|' a\\b`, "a\\b|"},
		{"A=one two\n* * * * * echo \"$A\"", "one two\n"},
		{"A = ' one '  \n* * * * * echo \"$A\"", " one \n"},
		{"\"A\"=\"it's\"\n* * * * * echo \"$A\"", "it's\n"},
		{"A=$HOME/x `id` \\ \"\n* * * * * echo \"$A\"", "$HOME/x `id` \\ \"\n"},
		{"A=1\nA=2\n* * * * * echo $A", "2\n"},
		{"A=1\n* * * * * echo $A%unread\nA=2", "1\n"},
		{"SHELL=/bin/bash\n* * * * * x=(a b); echo ${x[1]}", "b\n"},
		{"SHELL=/bin/bash\nA=it's\n* * * * * x=($A b); echo ${x[0]}", "it's\n"},
		{"SHELL=/bin/bash\nA=3\n* * * * * read l; x=($l b); echo $A ${x[0]}%in", "3 in\n"},
		{"HOME=/usr\n* * * * * pwd; echo $HOME", "/usr\n/usr\n"},
		{"SHELL=/bin/bash\nHOME=/usr\n* * * * * pwd; x=(1 2); echo ${x[1]}", "/usr\n2\n"},
		{"* * * * * echo a \\", "a \\\n"},
		{"* * * * * echo '<<<<" + strings.Repeat("<", 200) + "'", "<<<<" + strings.Repeat("<", 200) + "\n"},
		{"* * * * * echo 'tab\there'\t", "tab\there\n"},
		{"* * * * * echo 일일정산 \u00a0 \U0001f600", "일일정산 \u00a0 \U0001f600\n"},
		{"* * * * * echo 'esc\x1b\x7f\x01'", "esc\x1b\x7f\x01\n"},
		{"* * * * * echo carriage\r\n", "carriage\n"},
		{"@daily\techo macro", "macro\n"},
		{"* * * * * # nothing", ""},
	} {
		jobs, _ := crontabJobs(t, c.text, Options{Zone: "UTC"})
		if len(jobs) != 1 {
			t.Errorf("%q: %d jobs", c.text, len(jobs))
		}
		for _, j := range jobs {
			if got := executed(t, j); got != c.want {
				t.Errorf("%q: it prints %q, want %q", c.text, got, c.want)
			}
		}
	}
}

// Which tables name accounts.
func TestCrontabTable(t *testing.T) {
	const entries = "0 1 * * * root /srv/a\n0 2 * * * app /srv/b\n"
	for _, c := range []struct {
		name, text string
		table      Table
		system     bool
		asked      bool // somebody has to look whether that is right
	}{
		{"/etc/crontab", "0 1 * * * app /srv/a\n", TableAuto, true, false},
		{"etc/cron.d/jobs", "0 1 * * * app /srv/a\n", TableAuto, true, false},
		{"/etc/crontab", "0 1 * * * app /srv/a\n", TableUser, false, false},
		{"x", "0 1 * * * app /srv/a\n", TableAuto, false, false},
		{"x", "0 1 * * * app /srv/a\n", TableSystem, true, false},
		{"x", "#min\thour\tmday\tmonth\twday\twho\tcommand\n0 1 * * * app /srv/a\n", TableAuto, true, false},
		{"x", "# *  *  *  *  * user-name command to be executed\n0 1 * * * app /srv/a\n", TableAuto, true, false}, // Debian's and Red Hat's
		{"x", entries, TableAuto, true, true},
		{"x", entries + "0 3 * * * /srv/c\n", TableAuto, false, true},
		{"x", "0 1 * * * /srv/a root\n", TableAuto, false, false},
		{"x", "@daily root /srv/a\n", TableAuto, true, true},
		{"x", "0 1 * * * root\n", TableAuto, false, false},
	} {
		r := Crontab(c.name, []byte(c.text), Options{Zone: "UTC", Table: c.table})
		readBack(t, r)
		system := strings.Contains(string(r.YAML), "# account ")
		asked := len(r.Reports) > 0 && strings.Contains(r.Reports[len(r.Reports)-1].Text, "assumed")
		if system != c.system || asked != c.asked {
			t.Errorf("%s %q: system %v, asked %v; want %v, %v\n%s", c.name, c.text, system, asked, c.system, c.asked, r.YAML)
		}
	}
}

// An account that isn't root's is kept, since the job would be root's otherwise.
func TestCrontabAccount(t *testing.T) {
	jobs, _ := crontabJobs(t, "A=b\n0 1 * * * app:staff/daemon echo $A%in\n0 2 * * * root /srv/b\n", Options{Zone: "UTC", Table: TableSystem})
	got := strings.Join(jobs["echo"].get("command").list, "|")
	if want := "runuser|-u|app|-g|staff|--|/bin/sh|-c|HOME=~app USER=app LOGNAME=app; export HOME USER LOGNAME; cd 2>/dev/null || cd /; export A=b; printf '%s\\n' in | /bin/sh -c 'echo $A'"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := jobs["b"].get("shell").text; got != "export A=b; /srv/b" {
		t.Errorf("root's: %q", got)
	}
}

func TestCrontabZone(t *testing.T) {
	jobs, r := crontabJobs(t, "@daily a\nCRON_TZ=Asia/Seoul\n@daily b\nCRON_TZ=Asia/Nowhere\n@daily c\nTZ=Asia/Tokyo\n@daily d\n", Options{})
	if !strings.Contains(string(r.YAML), "\ntimezone: local\n") || jobs["a"].get("tz").text != "" || jobs["b"].get("tz").text != "Asia/Seoul" {
		t.Errorf("zones:\n%s", r.YAML)
	}
	if len(r.Reports) != 1 || r.Reports[0].Line != 4 || !r.Lost() || jobs["c"].get("tz").text != "" {
		t.Errorf("an unknown zone: %v\n%s", r.Reports, r.YAML)
	}
	// TZ is of the commands alone, as with cron.
	if d := jobs["d"]; d.get("tz").text != "" || d.get("shell").text != "export TZ=Asia/Tokyo; d" {
		t.Errorf("TZ: %v", d)
	}
}

func TestNames(t *testing.T) {
	for line, want := range map[string]string{
		"/srv/bin/load.sh --all":                                     "load",
		"cd /srv && ./report.py >> log 2>&1":                         "report",
		"test -x /x || ( cd / && run-parts /etc/cron.daily )":        "run-parts-cron.daily",
		"[ -f /x ] && A=b /srv/check":                                "check",
		"sudo -u app nice -n 10 ionice -c 3 /srv/low":                "low",
		"flock -n /tmp/x.lock -c 'sync --all'":                       "sync",
		"/usr/bin/flock -w 5 /tmp/x.lock timeout -k 5 300 /srv/sync": "sync",
		"bash -lc 'cd /srv && bin/tidy'":                             "tidy",
		"/usr/bin/python3 -u /srv/etl.py":                            "etl",
		"php /srv/artisan schedule:run":                              "artisan",
		"env X=1 /srv/with-env":                                      "with-env",
		"'/srv/with space/a b'":                                      "a-b",
		"$HOME/bin/x":                                                "x",
		"$(which y)":                                                 "job",
		"일일정산":                                                       "일일정산",
		"test -x /usr/bin/certbot -a \\! -d /run/systemd/system && perl -e 'sleep int(rand(43200))' && certbot -q renew": "certbot", // Debian's
		"su - postgres -c 'pg_dump db'":              "pg_dump",
		"su -s /bin/sh -c 'cd /srv && ./y' www-data": "y",
		"runuser -u app -- /srv/z -c 1":              "z",
		"perl -we 'print 1'":                         "perl",
		"python3 -c 'import x'":                      "python3",
		"/usr/bin/php -d x=1 /srv/cron.php":          "cron",
		"bash -o pipefail -c '/srv/pipe | sort'":     "pipe",
		"-- ../../x;":                                "job",
		"\u0301x":                                    "x",
		"echo":                                       "echo",
		"":                                           "job",
		"@#!":                                        "job",
		strings.Repeat("x", 300):                     strings.Repeat("x", onerun.MaxName),
	} {
		if got := legal(nameOf(line)); got != want {
			t.Errorf("%.60q is called %q, want %q", line, got, want)
		}
	}
	w := newWriter("crontab", "x")
	long := strings.Repeat("é", onerun.MaxName)
	for _, want := range []string{long, strings.Repeat("é", onerun.MaxName-2) + "-2", strings.Repeat("é", onerun.MaxName-2) + "-3"} {
		if got := w.unique(long); got != want {
			t.Errorf("unique: %q, want %q", got, want)
		}
	}
	// One that another job has by right.
	jobs, _ := crontabJobs(t, "@daily a\n@daily a-2\n@daily a\n@daily A\n@daily true\n@daily 007\n", Options{Zone: "UTC"})
	for _, name := range []string{"a", "a-2", "a-3", "A", "true", "007"} {
		if _, ok := jobs[name]; !ok {
			t.Errorf("no job is called %q: %v", name, jobs)
		}
	}
}

// With cron a command is in its account's home, and is told of it; runuser leaves root's to it.
func TestAccountsHome(t *testing.T) {
	who, err := user.Lookup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"0 1 * * * daemon echo $PWD $HOME ~ $USER\n":             who.HomeDir + " " + who.HomeDir + " " + who.HomeDir + " daemon\n",
		"HOME=/usr\n0 1 * * * daemon echo $PWD $HOME $LOGNAME\n": "/usr /usr daemon\n",
	} {
		r := Crontab("x", []byte(text), Options{Zone: "UTC", Table: TableSystem})
		readBack(t, r)
		asSelf(t, &r.jobs[0])
		if got := executed(t, r.jobs[0]); got != want {
			t.Errorf("%q: it prints %q, want %q", text, got, want)
		}
	}
	r := timerOf(t, "[Timer]\nOnCalendar=daily\n", "[Service]\nUser=daemon\nWorkingDirectory=~\nExecStart=/bin/sh -c 'echo $$PWD $$HOME'\n")
	asSelf(t, &r.jobs[0])
	if got, want := executed(t, r.jobs[0]), who.HomeDir+" "+who.HomeDir+"\n"; got != want {
		t.Errorf("of a service: it prints %q, want %q", got, want)
	}
	// What a shell takes for no account's name is given to runuser alone.
	for _, name := range []string{"a;b", "1000"} {
		r = timerOf(t, "[Timer]\nOnCalendar=daily\n", "[Service]\nUser="+name+"\nExecStart=/bin/true\n")
		if got := strings.Join(r.jobs[0].get("command").list, "|"); got != "runuser|-u|"+name+"|--|/bin/sh|-c|/bin/true" {
			t.Error(got)
		}
	}
}

// asSelf takes the runuser out of a job's command.
func asSelf(t *testing.T, j *job) {
	t.Helper()
	for i, s := range j.settings {
		if at := slices.Index(s.list, "--"); s.key == "command" && at > 0 {
			j.settings[i].list = s.list[at+1:]
			return
		}
	}
	t.Fatalf("no runuser in %v", j.settings)
}

// Lines of anacron's are known wherever they stand: "@monthly 15" is no command 15.
func TestAnacronLines(t *testing.T) {
	const text = "1\t5\tcron.daily\trun-parts /etc/cron.daily\n7 10 cron.weekly run-parts x\n@monthly 15 cron.monthly run-parts x\n1 5 1 jan mon a\n1 5 L * * b\n@monthly c 15 d\n1 5 */2 * 1 e\n0 0 1~15 * * f\n0 0 MON * * g\n"
	jobs, r := crontabJobs(t, text, Options{Zone: "UTC"})
	if len(jobs) != 4 || len(r.Reports) != 5 {
		t.Fatalf("%d jobs, %v", len(jobs), r.Reports)
	}
	for i, one := range r.Reports[:3] {
		if one.Line != i+1 || !one.Lost || !strings.Contains(one.Text, "anacron runs cron.") {
			t.Error(one)
		}
	}
}

func TestCrontabReports(t *testing.T) {
	for _, c := range []struct{ name, text, want, schedules string }{
		{"x", "5 4 * * * a\r6 4 * * * b\r", "x:1: the lines end with carriage returns alone", "5 4 * * *|6 4 * * *"},
		{"x", "5 4 * * * a\rb\n6 4 * * * c\n", "x:1: there is a carriage return within the line", "5 4 * * *|6 4 * * *"},
		{"x", "0 0 12 * * MON /srv/a\n", "x:1: MON is taken for the command", "0 0 12 * *"},
		{"x", "0 0 * * * (/srv/a; /srv/b) & \n", "x:1: the & at the end", "0 0 * * *"},
		{"x", "0 0 * * * /srv/a && /srv/b \\&\n0 1 * * NOBODY x", "x:2: ", "0 0 * * *"},
		{"etc/cron.d/a.bak", "0 0 * * * root /srv/a\n", "etc/cron.d/a.bak: crons don't read every file", "0 0 * * *"},
		{"etc/cron.d/a~", "0 0 * * * root /srv/a\n", "etc/cron.d/a~: crons don't read every file", "0 0 * * *"},
	} {
		r := Crontab(c.name, []byte(c.text), Options{Zone: "UTC"})
		readBack(t, r)
		var got []string
		for _, j := range r.jobs {
			got = append(got, j.get("schedule").text)
		}
		if text := strings.Join(got, "|"); text != c.schedules || len(r.Reports) == 0 || !strings.HasPrefix(r.Reports[0].String(), c.want) {
			t.Errorf("%q: %s, %v; want %s, %s", c.text, text, r.Reports, c.schedules, c.want)
		}
	}
}

// The name that a tool has noted is that of the next entry, also when that is switched off.
func TestNameOfDisabledEntry(t *testing.T) {
	jobs, _ := crontabJobs(t, "#Ansible: one\n#0 5 * * * /srv/a\n0 6 * * * /srv/b\n", Options{Zone: "UTC"})
	if _, ok := jobs["b"]; !ok || len(jobs) != 1 {
		t.Errorf("%v", jobs)
	}
}

// TestRelativeCommand: what is said of a path that is no whole one goes by the directory in which it is looked for.
func TestRelativeCommand(t *testing.T) {
	const note = " counts from the account's home with cron, and from the directory of onerun serve here: give the whole path"
	for _, c := range []struct{ text, want string }{
		{"0 5 * * * ./x.sh", "./x.sh"},
		{"0 5 * * * bin/x --all", "bin/x"},
		{"0 5 * * * cd /srv && ./x.sh", ""},
		{"0 5 * * * cd $BASE && ./x.sh &>> log", ""},
		{"0 5 * * * cd; ./x.sh", ""},
		{"0 5 * * * cd app && ./x.sh", "app"},
		{"0 5 * * * cd '' && ./x.sh", ""},
		{"HOME=/srv\n0 5 * * * ./x.sh", ""},
		{"# m h dom mon dow user command\n0 5 * * * www-data ./x.sh", ""},
		{"# m h dom mon dow user command\n0 5 * * * root ./x.sh", "./x.sh"},
	} {
		r := Crontab("x", []byte(c.text+"\n"), Options{Zone: "UTC"})
		readBack(t, r)
		var got []string
		for _, line := range strings.Split(string(r.YAML), "\n") {
			if what, ok := strings.CutSuffix(line, note); ok {
				got = append(got, strings.TrimPrefix(strings.TrimSpace(what), "# "))
			}
		}
		if text := strings.Join(got, "|"); text != c.want || len(r.jobs) != 1 {
			t.Errorf("%q: %q, want %q", c.text, text, c.want)
		}
	}
}

// TestNoEntry: nothing at all is translated, and that is said.
func TestNoEntry(t *testing.T) {
	for _, text := range []string{"", "# mine\n", "schedule=\"0 0 L * *\"\nschedule=None\n", "PATH=/bin\n\n"} {
		r := Crontab("dags.txt", []byte(text), Options{Zone: "UTC"})
		readBack(t, r)
		if len(r.Reports) != 1 || r.Reports[0].Lost || !strings.HasPrefix(r.Reports[0].String(), "dags.txt: no line of it is an entry") {
			t.Errorf("%q: %v", text, r.Reports)
		}
	}
}
