package zookeeper

import (
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestNodesStandForTheirKeys: what the names of the nodes on a path say, put together, is the key; no two keys share a path.
func TestNodesStandForTheirKeys(t *testing.T) {
	t.Parallel()
	run := "0193f0a1-b2c3-7000-8000-000000000001"
	seen := map[string]string{}
	for _, key := range []string{
		"meta", "lock/default/job%2Fdaily", "life/default/%", "key/default/daily/2026-09-15", "key/default/daily/..", "run/" + run, "run/short", "run/0193f0a1b2.",
		"run/0193f0a1b2..", "attempt/" + run + "/0000000001", "approval/" + run + "/01764540123456789", "output/" + run + "/0000000001/w/0000", "time/default/01764540123456789/" + run,
		"hist/default/daily/01764540123456789/" + run, "begun/default/01764540123456789/x", "skip/default/daily/%/h/locked", "event/default/run/" + run + "/00000000000000001",
		"event/default/job/daily/00000000000000001", "other/abcdefghijklmn/abcd/abc", "other/abcd/efghijklmn/abc",
	} {
		nodes := nodesOf(key)
		path := strings.Join(nodes, "/")
		if other, taken := seen[path]; taken {
			t.Errorf("%s and %s are both %s", key, other, path)
		}
		seen[path] = key
		text := ""
		for i, n := range nodes {
			part, goesOn := textOf(n)
			if text += part; !goesOn && i < len(nodes)-1 {
				text += "/"
			}
			if n == "" || n == "." || n == ".." {
				t.Errorf("%s has a node %q", key, n)
			}
		}
		if text != key {
			t.Errorf("%s lies at %s, which stands for %s", key, path, text)
		}
	}
}

// TestWhatIsLookedForLeavesNothing: a claim that is refused makes no nodes but the one in which refusals are counted, however often.
func TestWhatIsLookedForLeavesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, freshURL(sharedServer(t).Addr()))
	c := claimOf("settle", "2026-09-15", time.Minute)
	granted(t, s, c)
	refused(t, s, again(c), onerun.RefusedRunning)
	z := direct(t, sharedServer(t).Addr())
	for range 5 {
		refused(t, s, again(c), onerun.RefusedRunning)
	}
	var files func(name string) int
	files = func(name string) int {
		names, _, err := z.Children(name)
		must(t, err, "list")
		n := 0
		for _, below := range names {
			data, _, err := z.Get(name + "/" + below)
			must(t, err, "read")
			if len(data) > 0 {
				n++
			}
			n += files(name + "/" + below)
		}
		return n
	}
	if n := files(s.space.at("keys", "run")); n != 1 {
		t.Errorf("%d nodes of runs hold something, and there is one run", n)
	}
}
