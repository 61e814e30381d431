package config_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onerun-dev/onerun/internal/config"
)

// page is a file that is being written, with the place where the next character goes.
type page struct {
	strings.Builder
	line, column int
}

func (p *page) put(s string) {
	p.WriteString(s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		p.line += strings.Count(s, "\n")
		p.column = 1
		s = s[i+1:]
	}
	p.column += utf8.RuneCountInString(s)
}

func (p *page) here() config.Value { return config.Value{Line: p.line, Column: p.column} }

// Whatever a file is written like, it is read as it was meant, and every value has its place.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &page{line: 1, column: 1}
		pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "pick") }
		plain := func() string {
			return pick("a", "1.10", "007", "1h30m", "가 나", "x:y", "a#b", "two words", "./run", "--all", "-1", "http://h/x?y=z", "it's", "a\"b", "x&y")
		}
		quotable := func() string {
			return pick("", " ", "# no comment", "- x", "{a: b}", "[", "true", "null", "*x", "a: b", "tab\there", "back\\slash", "quote'\"", "일", "🙂 x")
		}
		// scalar writes a value in one line and returns it.
		scalar := func(filled bool) string {
			style := rapid.IntRange(0, 2).Draw(t, "style")
			s := quotable()
			if style == 0 || filled && s == "" {
				s = plain()
				p.put(s)
				return s
			}
			if style == 1 {
				p.put("'" + strings.ReplaceAll(s, "'", "''") + "'")
			} else {
				p.put(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`, "일", `\uc77c`).Replace(s) + `"`)
			}
			return s
		}
		want := map[string]map[string]config.Value{}
		comment := func() { p.put(pick("\n", "\n", "  # a: b\n", "\t# x\n", "\n\n", "\n# 'x\n", "\n          # [\n")) }
		if rapid.Bool().Draw(t, "mark") {
			p.put("---\n")
		}
		p.put("jobs:")
		comment()
		for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
			name := fmt.Sprintf("작업%d", i)
			job := map[string]config.Value{}
			want[name] = job
			p.put("  " + name + ":")
			comment()
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"period", "date", "version_label", "command", "label"}), 1, 5, rapid.ID[string]).Draw(t, "keys") {
				p.put("    " + pick("", `"`))
				quoted := strings.HasSuffix(p.String(), `"`)
				p.put(key)
				if quoted {
					p.put(`"`)
				}
				p.put(":" + pick(" ", "  ", "\t", "\n      ", "  # why\n      "))
				var v config.Value
				switch {
				case key == "command":
					v = p.here()
					p.put("[")
					for j := range rapid.IntRange(1, 3).Draw(t, "items") {
						if j > 0 {
							p.put("," + pick("", " ", "\n        "))
						}
						v.List = append(v.List, scalar(false))
					}
					p.put("]")
				case key == "label":
					v = p.here()
					v.Map = map[string]string{}
					p.put("{")
					for j := range rapid.IntRange(1, 3).Draw(t, "pairs") {
						if j > 0 {
							p.put(", ")
						}
						p.put(fmt.Sprintf("k%d: ", j))
						v.Map[fmt.Sprintf("k%d", j)] = scalar(false)
					}
					p.put("}")
				case rapid.IntRange(0, 3).Draw(t, "block") == 0:
					v = p.here()
					p.put(pick("|", "|-", "| # note") + "\n")
					header := p.String()
					for range rapid.IntRange(1, 3).Draw(t, "lines") {
						s := pick("# x", "a: b", "- 'c", "if\tx", "가") + "\n"
						p.put("        " + s)
						v.Text += s
					}
					if strings.HasSuffix(header, "|-\n") {
						v.Text = strings.TrimSuffix(v.Text, "\n")
					}
				default:
					v = p.here()
					v.Text = scalar(true)
				}
				job[key] = v
				if !strings.HasSuffix(p.String(), "\n") {
					comment()
				}
			}
		}
		text := p.String()
		if rapid.Bool().Draw(t, "crlf") {
			text = "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n")
		}
		f, err := config.Parse("f", []byte(text), schema())
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, f.Jobs, unseen); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
	})
}
