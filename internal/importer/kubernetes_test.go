package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// cronJobText is a CronJob with more keys in its spec and in that of its job.
func cronJobText(spec, jobSpec string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: CronJob
metadata: {name: it}
spec:
  schedule: "0 1 * * *"
%s  jobTemplate:
    spec:
%s      template:
        spec:
          containers: [{name: c, image: i, command: [a, b]}]
`, spec, jobSpec)
}

func kubernetes(t *testing.T, text string) Result {
	t.Helper()
	r := Kubernetes("k.yaml", []byte(text), Options{})
	readBack(t, r)
	return r
}

func TestCronJobSettings(t *testing.T) {
	for _, c := range []struct{ spec, job, want string }{
		{"", "", "schedule 0 1 * * *; command [a b]; scope key; catch_up [[policy latest]]; retries 6; backoff 10s..6m"},
		{"", "      backoffLimit: null\n", "schedule 0 1 * * *; command [a b]; scope key; catch_up [[policy latest]]; retries 6; backoff 10s..6m"},
		{"  concurrencyPolicy: Forbid\n", "      backoffLimit: 0\n", "schedule 0 1 * * *; command [a b]; overlap skip; catch_up [[policy latest]]"},
		{
			"  concurrencyPolicy: Replace\n  timeZone: Asia/Seoul\n", "      backoffLimit: 3\n",
			"schedule 0 1 * * *; tz Asia/Seoul; command [a b]; overlap replace; catch_up [[policy latest]]; retries 3; backoff 10s..6m",
		},
		{
			"  concurrencyPolicy: Forbid\n  startingDeadlineSeconds: 120\n", "      backoffLimit: 0\n      activeDeadlineSeconds: 60\n",
			"schedule 0 1 * * *; command [a b]; overlap skip; catch_up [[policy latest] [window 2m]]; start_by 2m; timeout 1m",
		},
	} {
		r := kubernetes(t, cronJobText(c.spec, c.job))
		if len(r.jobs) != 1 || r.Lost() {
			t.Errorf("%q %q: %v", c.spec, c.job, r.Reports)
			continue
		}
		var got []string
		for _, s := range r.jobs[0].settings {
			switch {
			case s.list != nil:
				got = append(got, fmt.Sprint(s.key, " ", s.list))
			case s.pairs != nil:
				got = append(got, fmt.Sprint(s.key, " ", s.pairs))
			default:
				got = append(got, s.key+" "+s.text)
			}
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%q %q:\n%s, want\n%s", c.spec, c.job, text, c.want)
		}
	}
}

func TestKubernetesReports(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "k.yaml: the file is empty"},
		{"kind: Service\napiVersion: v1\n", "k.yaml:1: the kind Service has no schedule"},
		{"---\n---\nkind: Service\n", "k.yaml:3: the kind Service"},
		{"a: b\n", "k.yaml:1: it is no object"},
		{"- a\n", "k.yaml:1: it is no object"},
		{"just text\n", "k.yaml:1: it is no object"},
		{"apiVersion: batch/v9\nkind: CronJob\n", "k.yaml:1: a CronJob of batch/v9"},
		{"apiVersion: batch/v1\nkind: CronJob\n", "k.yaml:1: the CronJob has no spec"},
		{"kind: List\n", "k.yaml:1: the list has no items"},
		{"kind: List\nitems:\n- metadata: {name: a}\n", "k.yaml:3: this item of the list has no kind"},
		{"kind: CronJobList\nitems:\n- kind: Pod\n", "k.yaml:3: the kind Pod"},
		{"apiVersion: batch/v9\nkind: CronJobList\nitems:\n- metadata: {name: a}\n", "k.yaml:4: a CronJob of batch/v9"},
		{cronJobText("  suspend: true\n", ""), "k.yaml:6: it is suspended, and would start here"},
		{cronJobText("  suspend: maybe\n", ""), "k.yaml:6: suspend: "},
		{cronJobText("  timeZone: Mars/Crater\n", ""), "k.yaml:5: the zone "},
		{cronJobText("  concurrencyPolicy: Sometimes\n", ""), "k.yaml:6: concurrencyPolicy: "},
		{cronJobText("  startingDeadlineSeconds: soon\n", ""), "k.yaml:6: startingDeadlineSeconds: "},
		{cronJobText("  startingDeadlineSeconds: -1\n", ""), "k.yaml:6: startingDeadlineSeconds: "},
		{cronJobText("", "      parallelism: 2\n"), "k.yaml:8: parallelism: 2"},
		{cronJobText("", "      activeDeadlineSeconds: 99999999999999999999\n"), "k.yaml:8: activeDeadlineSeconds: "},
		{strings.Replace(cronJobText("", ""), "0 1 * * *", "TZ=Asia/Seoul", 1), "k.yaml:5: the schedule"},
		{strings.Replace(cronJobText("  timeZone: UTC\n", ""), "0 1 * * *", "TZ=Asia/Seoul 0 1 * * *", 1), "k.yaml:5: it has a zone in its schedule and a timeZone"},
		{strings.Replace(cronJobText("", ""), `"0 1 * * *"`, `"{{ .Values.schedule }}"`, 1), "k.yaml:5: it is a template of Helm's"},
		{strings.Replace(cronJobText("", ""), `"0 1 * * *"`, "{{ .Values.schedule }}", 1), "k.yaml:5: it is a template of Helm's"},
		{strings.Replace(cronJobText("", ""), "{name: it}", "{name: '{{ x }}'}", 1), "k.yaml:3: it is a template of Helm's"},
		{strings.Replace(cronJobText("", ""), "command: [a, b]", "command: [[a]]", 1), "k.yaml:10: command and args"},
		{strings.Replace(cronJobText("", ""), "[{name: c, image: i, command: [a, b]}]", "[]", 1), "k.yaml:6: the CronJob has no containers"},
		{strings.Replace(cronJobText("", ""), "}]\n", "}, {name: d}]\n", 1), "k.yaml:10: a job executes one command"},
		{"a: [\n", "k.yaml:1: it is no YAML"},
		{"kind: CronJob\n---\na: b: c\n", "k.yaml:3: it is no YAML"},
		{"a: \xff\n", "k.yaml:1: it is no YAML: the byte 0xFF"},
		{"a: b\nc: \x00\n", "k.yaml:2: it is no YAML"},
		{"a: !!str b\n", "k.yaml:1: it is no YAML: tags"},
		{"a: *nobody\n", "k.yaml:1: it is no YAML: no anchor"},
		{strings.Replace(cronJobText("", ""), "[a, b]", "[sh, -c, rm a\tb]", 1), "k.yaml:10: it is no YAML: a tab within a value"},
		{strings.Replace(cronJobText("", ""), `"0 1 * * *"`, "1\t5 * * *", 1), "k.yaml:5: it is no YAML: a tab within a value"},
	} {
		r := kubernetes(t, c.text)
		if !slices.ContainsFunc(r.Reports, func(one Report) bool { return one.Lost && strings.HasPrefix(one.String(), c.want) }) {
			t.Errorf("%q: %v, want %q", c.text, r.Reports, c.want)
		}
	}
}

// What is executed is what Kubernetes executes: it puts variables of env in the place of $(NAME) where there is one of that
// name, and makes $$ a $.
func TestCronJobVariables(t *testing.T) {
	const env = "env: [{name: A, value: 1}, {name: B, value: '$(A)2 $(no) $$(A)'}, {name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}]"
	for _, c := range []struct{ word, want, report string }{
		{"echo $(A) $(B)", "echo 1 12 $(no) $(A)", ""},
		{"echo $(date) $$(date) $$ $X $ $(", "echo $(date) $(date) $ $X $ $(", ""},
		{"echo $(S) $(A)", "echo $(S) 1", "k.yaml:10: $(S) in the command is what env takes from elsewhere"},
		{"$$(S)", "$(S)", ""},
	} {
		r := kubernetes(t, strings.Replace(cronJobText("", ""), "command: [a, b]", "command: [sh, -c], args: ['"+c.word+"'], "+env, 1))
		if len(r.jobs) != 1 || r.Lost() {
			t.Fatalf("%s: %v", c.word, r.Reports)
		}
		got := r.jobs[0].get("command").list[2]
		if got != c.want || c.report == "" && len(r.Reports) > 0 || c.report != "" && (len(r.Reports) != 1 || !strings.HasPrefix(r.Reports[0].String(), c.report)) {
			t.Errorf("%s: %q, %v; want %q, %q", c.word, got, r.Reports, c.want, c.report)
		}
		if !strings.Contains(string(r.YAML), "left out, it has no counterpart: spec.jobTemplate.spec.template.spec.containers[0].env") {
			t.Errorf("env isn't named:\n%s", r.YAML)
		}
	}
}

// Every key of a CronJob is either translated or named in a comment.
func TestCronJobNamesEveryKey(t *testing.T) {
	const text = `apiVersion: batch/v1
kind: CronJob
metadata:
  name: it
  annotations:
    a: b
spec:
  schedule: "@daily"
  failedJobsHistoryLimit: 1
  shiny: true
  jobTemplate:
    metadata:
      labels: {a: b}
    spec:
      ttlSecondsAfterFinished: 5
      podFailurePolicy:
        rules: []
        other: x
      template:
        spec:
          restartPolicy: Never
          nodeSelector: {a: b}
          initContainers:
            - name: before
          containers:
            - name: c
              image: i
              args: [x]
              workingDir: /srv
              resources:
                limits: {cpu: 1}
              envFrom:
                - secretRef: {name: s}
`
	r := kubernetes(t, text)
	if len(r.jobs) != 1 {
		t.Fatalf("jobs: %v", r.Reports)
	}
	keys := []string{
		"annotations", "labels", "failedJobsHistoryLimit", "shiny", "ttlSecondsAfterFinished", "podFailurePolicy", "restartPolicy", "nodeSelector", "initContainers",
		"image", "args", "workingDir", "resources", "envFrom",
	}
	_, jobs, _ := strings.Cut(string(r.YAML), "\njobs:")
	r.YAML = []byte(strings.Replace(jobs, "lines 1 to", "", 1))
	said := mentioned(r)
	for i, line := range strings.Split(text, "\n") {
		key := strings.Trim(strings.SplitN(line, ":", 2)[0], " -")
		if slices.Contains(keys, key) && !said[i+1] {
			// of what is below another key that is left out, that one is named
			if key != "labels" || !said[i] {
				t.Errorf("line %d is not named: %s\n%s", i+1, line, jobs)
			}
		}
	}
}

// JSON, lists, aliases, merge keys and Windows' line ends are YAML too.
func TestKubernetesForms(t *testing.T) {
	plain := cronJobText("", "")
	for _, c := range []struct {
		name, text string
		jobs       int
	}{
		{"carriage returns", strings.ReplaceAll(plain, "\n", "\r\n"), 1},
		{"byte order mark", "\ufeff" + plain, 1},
		{"no newline at the end", strings.TrimSuffix(plain, "\n"), 1},
		{"documents", "%YAML 1.2\n---\n" + plain + "...\n---\n# nothing\n---\n" + plain, 2},
		{"JSON", `{"kind": "List", "items": [{"kind": "CronJob", "apiVersion": "batch/v1", "metadata": {"name": "a"},
 "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"command": ["a"]}]}}}}}}]}`, 1},
		{"as the server has it", `{"kind":"CronJobList","apiVersion":"batch/v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","namespace":"n"},
 "spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"command":["a"]}]}}}}},"status":{}},{"metadata":{"name":"b"},
 "spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"command":["b"]}]}}}}}}]}`, 2},
		{"aliases", "kind: List\nitems:\n- &one\n  " + strings.ReplaceAll(strings.TrimSpace(plain), "\n", "\n  ") + "\n- *one\n- <<: *one\n  metadata: {name: other}\n", 3},
		{"a template in the command", strings.Replace(plain, "[a, b]", "[docker, ps, '{{.Names}}']", 1), 1},
	} {
		r := kubernetes(t, c.text)
		if len(r.jobs) != c.jobs || r.Lost() {
			t.Errorf("%s: %d jobs, want %d: %v\n%s", c.name, len(r.jobs), c.jobs, r.Reports, r.YAML)
		}
	}
}
