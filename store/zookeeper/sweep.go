package zookeeper

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// A key that is deleted leaves its node behind, with a mark. Were the node removed and made again, its version would
// begin at 0 again, and the check of a commit, which can name nothing but that version, could take the one for the other.
//
// Sweeps remove what was left behind, many at once, and each one changes the node epoch in the same multi. Every
// commit checks that no sweep was made since it looked at its nodes; one that finds one looks at them again. So no
// commit ever meets a node that was made anew since it was looked at, however long it took.
const (
	sweepOdds  = 48        // one in so many commits that delete something looks whether to sweep
	sweepMost  = 200       // commits whose deleted keys one sweep removes
	sweepBytes = 200 << 10 // of the names of their nodes, more or less: all of them stand in one request
	sweepPause = time.Second
	goneShards = 16
	comeAndGo  = 16 // one in so many deletions of a key that was there before is noted for the sweeps
)

// bury notes which keys a commit deletes, where a sweep finds it.
func (c *commit) bury() {
	name := c.s.at("gone", string(c.id[:1]), string(c.id))
	c.add(name, &zk.CreateRequest{
		Path: name, Data: []byte(strings.Join(c.buried, "\n")), Acl: c.s.openACL(), Flags: zk.FlagPersistent,
	})
}

// sweepSoon sweeps aside, now and then. The lock of the space is held.
func (s *space) sweepSoon() {
	if rand.IntN(sweepOdds) != 0 || s.life.Err() != nil {
		return
	}
	select {
	case s.sweep <- struct{}{}:
	default: // one is on its way
		return
	}
	s.tasks.Go(func() {
		defer func() { <-s.sweep }()
		ctx, cancel := context.WithTimeout(s.life, 5*time.Second)
		defer cancel()
		// What isn't swept now is swept by another.
		_, _ = s.sweepShard(ctx, strconv.FormatInt(rand.Int64N(goneShards), goneShards))
	})
}

// sweepShard removes some of what was left behind, and says how many nodes; 0 also when somebody swept a moment ago.
func (s *space) sweepShard(ctx context.Context, of string) (keys int, err error) {
	now, err := s.ask(ctx)
	if err != nil {
		return 0, err
	}
	epoch, err := look(ctx, s.conn, func(z *zk.Conn) (*zk.Stat, error) {
		_, stat, err := z.Get(s.at("epoch"))
		return stat, err
	})
	if err != nil || epoch.Version > 0 && now.Sub(time.UnixMilli(epoch.Mtime)) < sweepPause {
		return 0, err
	}
	notes, err := look(ctx, s.conn, func(z *zk.Conn) ([]string, error) {
		names, _, err := z.Children(s.at("gone", of))
		return names, err
	})
	if err != nil || len(notes) == 0 {
		return 0, err
	}
	rand.Shuffle(len(notes), func(i, j int) { notes[i], notes[j] = notes[j], notes[i] })
	notes = notes[:min(len(notes), sweepMost)]
	for i := range notes {
		notes[i] = s.at("gone", of, notes[i])
	}
	return s.sweepNotes(ctx, now, epoch.Version, notes)
}

// sweepNotes removes the nodes that some notes name, and the notes.
func (s *space) sweepNotes(ctx context.Context, now time.Time, epoch int32, notes []string) (int, error) {
	nodes, errs := s.gets(ctx, notes)
	var names []string
	size := 0
	for i, n := range nodes {
		if size > sweepBytes {
			notes, nodes, errs = notes[:i], nodes[:i], errs[:i]
			break
		}
		if errs[i] != nil {
			continue // somebody else was faster, and has changed the epoch
		}
		for line := range strings.SplitSeq(string(n.data), "\n") {
			if name := s.noted(line); !slices.Contains(names, name) {
				names = append(names, name)
				size += len(name)
			}
		}
	}
	left, missing := s.gets(ctx, names)
	ops := []any{&zk.SetDataRequest{Path: s.at("epoch"), Version: epoch}}
	var removed []string
	young := map[string]bool{}
	for i, n := range left {
		if missing[i] != nil {
			continue
		}
		c, err := contentOf(n.data)
		switch {
		case err != nil || c.kind != kindDeleted && c.kind != 0 || n.stat.NumChildren > 0:
			continue // it is there again, or has become a directory
		case now.Sub(time.UnixMilli(n.stat.Mtime)) < sweepPause:
			young[names[i]] = true // it comes and goes, and would make all of the sweep fail
			continue
		}
		ops = append(ops, &zk.DeleteRequest{Path: names[i], Version: n.stat.Version})
		removed = append(removed, names[i])
	}
	for i, n := range nodes {
		keep := errs[i] != nil
		for line := range strings.SplitSeq(string(n.data), "\n") {
			keep = keep || young[s.noted(line)]
		}
		if !keep {
			ops = append(ops, &zk.DeleteRequest{Path: notes[i], Version: -1})
		}
	}
	if dirs := s.above(removed); len(dirs) > 0 {
		id := string(newCommitID())
		ops = append(ops, &zk.CreateRequest{
			Path: s.at("gone", id[:1], id), Data: []byte(strings.Join(dirs, "\n")), Acl: s.openACL(), Flags: zk.FlagPersistent,
		})
	}
	if len(ops) == 1 {
		return 0, nil
	}
	_, err := once(ctx, s.conn, func(z *zk.Conn) ([]zk.MultiResponse, error) { return z.Multi(ops...) })
	if err != nil {
		return 0, err
	}
	return len(removed), nil
}

// noted is the node that a line of a note names: that of a key, or a directory by its path.
func (s *space) noted(line string) string {
	if strings.HasPrefix(line, "/") {
		return line
	}
	return s.nodePath(line)
}

// above are the directories of some nodes, each once, which may be empty by now. The next sweep looks at them. Those of a
// kind and of a namespace stay.
func (s *space) above(names []string) []string {
	var dirs []string
	for _, n := range names {
		dir := n[:strings.LastIndexByte(n, '/')]
		if strings.Count(strings.TrimPrefix(dir, s.at("keys")), "/") > 2 && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
