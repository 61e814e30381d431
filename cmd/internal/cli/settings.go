package cli

import (
	"os"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// settingView is one setting of a job: its value, and where that comes from.
type settingView struct {
	Setting string  `json:"setting"`
	Value   *string `json:"value"`  // null: none
	Source  string  `json:"source"` // flag, environment NAME, FILE:LINE, default
}

// settings are what a start of the job would go by, as far as the file, the environment and
// the flags of every command say.
func (e *env) settings(job string) ([]settingView, error) {
	job, err := onerun.CleanName("job", job)
	if err != nil {
		return nil, err
	}
	c := runByDefault(job)
	if e.file != nil {
		e.apply(c, job)
		e.command(job, &c.Shell, &c.Command)
	}
	views := []settingView{e.storeSetting()}
	add := func(f flag, typed bool) {
		v := settingView{Setting: f.name, Source: "default"}
		text := textOf(f.value)
		switch name := variables[f.name]; {
		case typed:
			v.Source = "flag"
		case name != "" && os.Getenv(name) != "":
			v.Source, text = "environment "+name, os.Getenv(name)
		case e.sources[f.name] != "":
			v.Source = e.sources[f.name]
		}
		if text == "0s" && f.tag.Get("default") == "" {
			text = ""
		}
		v.Value = nilIf(e.redacted(text), "")
		views = append(views, v)
	}
	for _, f := range flagFields(&e.common) {
		if f.name != "store" && f.name != "config" {
			add(f, e.given[f.name])
		}
	}
	for _, f := range flagFields(c) {
		if f.name != "shell" {
			add(f, false)
		}
	}
	line := string(c.Shell)
	if len(c.Command) > 0 {
		line = strings.Join(c.Command[1:], " ")
	}
	source := e.sources["command"]
	if source == "" {
		source = "default"
	}
	return append(views, settingView{"command", nilIf(e.redacted(line), ""), source}), nil
}

// runByDefault is `run JOB` without flags.
func runByDefault(job string) *runCmd {
	c := &runCmd{Job: job}
	for _, f := range flagFields(c) {
		if d := f.tag.Get("default"); d != "" {
			set(f.value, d)
		}
	}
	return c
}

// variables are the environment's names for flags.
var variables = map[string]string{"tz": "ONERUN_TZ", "at": "ONERUN_SCHEDULED_AT"}

func (e *env) storeSetting() settingView {
	v := settingView{Setting: "store", Source: "default"}
	looking := e.looking
	e.looking = true // to say where it would be makes nothing
	p, err := e.place()
	e.looking = looking
	switch file, line := e.storeInFile(); {
	case e.Store != "":
		v.Source = "flag"
	case os.Getenv("ONERUN_STORE") != "":
		v.Source = "environment ONERUN_STORE"
	case file != "":
		v.Source = strings.TrimPrefix(line, "store in ")
	}
	if err == nil {
		url := storeurl.Redact(p.url)
		v.Value = &url
	}
	return v
}

func (c *explainCmd) settings(e *env) error {
	views, err := e.settings(c.Key)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e.out, views)
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM"}}
	for _, v := range views {
		value := ""
		if v.Value != nil {
			value = *v.Value
		}
		rows = append(rows, []string{v.Setting, value, v.Source})
	}
	return writeTable(e.out, rows)
}
