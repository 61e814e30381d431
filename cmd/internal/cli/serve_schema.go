package cli

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun/internal/config"
)

// jsonSchema is the configuration file as a JSON Schema (2020-12), for editors: from the same table as the file is read by,
// with the help of the flags. It knows less than --check: what values mean is not in it.
func jsonSchema() ([]byte, error) {
	s := schema()
	flags := map[string]flag{}
	for _, f := range slices.Concat(flagFields(&common{}), flagFields(&runCmd{})) {
		flags[key(f.name)] = f
	}
	job := properties(s.Job, flags)
	defaults := maps.Clone(job)
	delete(defaults, "command")
	delete(defaults, "shell")
	top := properties(s.Top, flags)
	scalars := object{"type": "object", "additionalProperties": object{"type": "string"}}
	top["calendars"], top["redact"] = scalars, object{"type": "array", "items": object{"type": "string"}}
	top["defaults"] = closed(defaults, "What jobs have that don't say otherwise.")
	top["jobs"] = object{"type": "object", "description": "The jobs by their names.", "additionalProperties": closed(job, "")}
	root := closed(top, "")
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", "onerun's configuration file"
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

type object = map[string]any

// closed is an object that has no other keys.
func closed(keys object, description string) object {
	o := object{"type": "object", "additionalProperties": false, "properties": keys}
	if description != "" {
		o["description"] = description
	}
	return o
}

func properties(keys map[string]config.Key, flags map[string]flag) object {
	all := object{}
	for name, k := range keys {
		o := valueSchema(k)
		if f, ok := flags[name]; ok {
			o["description"] = f.tag.Get("help")
			if enum := f.tag.Get("enum"); enum != "" && f.value.Kind() != reflect.Slice {
				o = object{"enum": strings.Split(enum, ","), "description": f.tag.Get("help")}
			}
		}
		if text, ok := scheduleHelp[name]; ok {
			o["description"] = text
		}
		all[name] = o
	}
	return all
}

// valueSchema is what a value looks like. A number or true in YAML is as good as a text.
func valueSchema(k config.Key) object {
	one := object{"type": []string{"string", "number"}}
	switch k.Kind {
	case config.Bool:
		return object{"type": "boolean"}
	case config.List:
		return object{"type": "array", "items": one}
	case config.Map:
		return object{"type": "object", "additionalProperties": one}
	case config.Table:
		return object{"type": "object", "additionalProperties": closed(properties(k.Inner, nil), "")}
	case config.Scalar:
		return one
	}
	return object{}
}

// scheduleHelp are words for the scheduler's keys, which are no flags.
var scheduleHelp = map[string]string{
	"timezone": "The zone of every job that names none: an IANA name, or local.",
	"alerts":   "Who is told of jobs, by a name that notify can have: url, on, remind, skips.",
	"groups":   "How many jobs of a group may run at once on one instance.",
	"limit":    "How many jobs may run at once on one instance (100).",
	"listen":   "HOST:PORT of /metrics, /healthz and /readyz.", "generation": "A number that grows with each edit (else the time of the file counts).",
	"schedule": "A cron expression of five fields, or six with seconds first; @daily and its like; @every DURATION; @reboot.",
	"dst":      "What becomes of fixed times when the clock is changed: once, skip, twice.",
	"jitter":   "A start is up to so much later than its time, always by the same.",
	"catch_up": "What becomes of missed fires: policy (none, latest, all), window, cap, spread.",
	"overlap":  "A fire while the job runs: skip, queue, queue:N, replace.",
	"group":    "The group whose limit the job counts in.",
	"at_most":  "Alert when it has run more often: N/DURATION, such as 12/1h. Whoever started it, each attempt counts.",
	"start_by": "Alert when a fire has not started by so long after its time.", "finish_by": "Alert when it has not finished by then.",
	"command": "The program and its arguments, as a list.",
}
