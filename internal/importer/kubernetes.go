package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
)

// manifest is a file of Kubernetes objects in the reading.
type manifest struct {
	*writer
	o Options
}

// Kubernetes translates the CronJobs of a file of manifests.
func Kubernetes(name string, text []byte, o Options) Result {
	m := &manifest{writer: newWriter("kubernetes", name), o: o}
	zone := o.Zone
	if zone == "" {
		zone = "UTC"
		m.say("A CronJob without a timeZone goes by the clock of its controller: UTC is assumed.")
	}
	m.say("The command of a container is executed where onerun serve runs, with what is installed there and not with what is in the image.")
	m.say("Once a job is here, suspend the CronJob (kubectl patch cronjob NAME -p '{\"spec\":{\"suspend\":true}}'), else both start it.")
	m.top = append(m.top, "timezone: "+quote(zone))
	if len(text) > MaxSize {
		m.lost(0, fmt.Sprintf("the file is larger than %d KiB", MaxSize>>10), "import it in parts")
		return m.result()
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	body := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text))
	if body != "" && !strings.HasSuffix(body, "\n") {
		body += "\n"
	}
	all := documents(body)
	for _, d := range all {
		m.document(d)
	}
	if len(all) == 0 {
		m.lost(0, "the file is empty", "name one with CronJobs")
	}
	return m.result()
}

// cronJobs is the kind of a list of nothing but CronJobs.
const cronJobs = "CronJobList"

const helm = "it is a template of Helm's, not a manifest"

// helmFirst is what to do with one.
const helmFirst = "import what it makes: helm template . | onerun import kubernetes -"

func (m *manifest) document(d document) {
	root, line, err := yamlTree(d)
	switch {
	case err != nil && strings.Contains(d.text, "{{"):
		before, _, _ := strings.Cut(d.text, "{{")
		m.lost(d.first+strings.Count(before, "\n"), helm, helmFirst)
	case err != nil:
		m.lost(max(line, d.first), "it is no YAML: "+err.Error(), "correct it; kubectl apply --dry-run=client -f FILE reads it too")
	case root == nil:
		return
	default:
		m.object(root, "", "")
	}
}

// object takes one object, or a list of them: in, whose version its items have where they say none. The server writes neither kind
// nor version into those of a CronJobList.
func (m *manifest) object(n *node, in, inVersion string) {
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		m.lost(n.line, "it is no object of Kubernetes: it has no kind", "name a file with CronJobs")
		return
	}
	kind, version := n.value("kind"), n.value("apiVersion")
	if in == cronJobs && kind == "" {
		kind, version = "CronJob", cmp.Or(version, inVersion)
	}
	switch {
	case strings.Contains(kind+version, "{{"):
		m.lost(n.line, helm, helmFirst)
	case kind == "List" || kind == cronJobs:
		items := n.get("items")
		if items == nil || items.kind != listNode {
			m.lost(n.line, "the list has no items", "name a file with CronJobs")
			return
		}
		for _, item := range items.list {
			m.object(item, kind, version)
		}
	case kind == "CronJob" && (version == "batch/v1" || version == "batch/v1beta1" || version == "batch/v2alpha1" || version == ""):
		m.cronJob(n)
	case kind == "CronJob":
		m.lost(n.at("apiVersion"), fmt.Sprintf("a CronJob of %s is not one of batch/v1 or batch/v1beta1", shown(version, 60)), "write the job by hand")
	case kind == "" && in != "":
		m.lost(n.line, "this item of the list has no kind", "write kind: CronJob if it is one, or kind: CronJobList above if all are")
	case kind == "":
		m.lost(n.line, "it is no object of Kubernetes: it has no kind", "name a file with CronJobs")
	default:
		m.lost(n.at("kind"), fmt.Sprintf("the kind %s has no schedule", shown(kind, 60)), "only CronJobs are translated")
	}
}
