package process

import (
	"slices"
	"testing"
)

func TestEnv(t *testing.T) {
	for _, c := range []struct {
		name  string
		base  []string
		set   map[string]string
		unset []string
		want  []string
	}{
		{"nothing", nil, nil, nil, nil},
		{
			"unchanged",
			[]string{"B=2", "A=1", "A=0", "", "=x", "no equals", "C=", "D=a=b"},
			nil, nil,
			[]string{"B=2", "A=1", "A=0", "", "=x", "no equals", "C=", "D=a=b"},
		},
		{"replaced in place", []string{"A=1", "B=2", "C=3"}, map[string]string{"B": "x"}, nil, []string{"A=1", "B=x", "C=3"}},
		{"new ones sorted at the end", []string{"M=1"}, map[string]string{"Z": "1", "A": ""}, nil, []string{"M=1", "A=", "Z=1"}},
		{
			"duplicates of what is set go",
			[]string{"A=1", "B=1", "A=2", "B=2", "A"},
			map[string]string{"A": "x"},
			nil,
			[]string{"A=x", "B=1", "B=2", "A"},
		},
		{"unset, all of them", []string{"A=1", "B=1", "A=2", "AB=1", "A"}, nil, []string{"A"}, []string{"B=1", "AB=1", "A"}},
		{"set wins over unset", []string{"A=1"}, map[string]string{"A": "x"}, []string{"A"}, []string{"A=x"}},
		{"set to what looks like more", nil, map[string]string{"A": "=b=\n"}, nil, []string{"A==b=\n"}},
	} {
		base := slices.Clone(c.base)
		if got := Env(c.base, c.set, c.unset...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if !slices.Equal(base, c.base) {
			t.Errorf("%s: the base was changed to %q", c.name, c.base)
		}
	}
}
