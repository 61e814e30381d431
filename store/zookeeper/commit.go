package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// tries is how often a commit is put together anew because a node was not as this client knew it, and hangups how often
// it is said again to a server that hangs up on it.
const (
	tries   = 30
	hangups = 4
)

// Commit implements kvledger.Space: all of it is one multi. What is known of the nodes may be old. If the multi fails by
// that, they are looked at again; only where a key isn't what the transaction says is the answer no.
func (s *space) Commit(ctx context.Context, t kvledger.Txn) (version int64, ok bool, err error) {
	version, ok, err = s.commit(ctx, t)
	return version, ok, s.explain("write to the store", err)
}

func (s *space) commit(ctx context.Context, t kvledger.Txn) (version int64, ok bool, err error) {
	if err := s.prepare(ctx); err != nil {
		return 0, false, err
	}
	c := &commit{s: s, ctx: ctx, id: newCommitID(), checks: map[string]int64{}, writes: map[string]kvledger.Write{}}
	for _, k := range t.Checks {
		c.checks[k.Key] = k.Version
		c.keys = append(c.keys, k.Key)
	}
	for _, w := range t.Writes {
		c.writes[w.Key] = w
		if _, checked := c.checks[w.Key]; !checked {
			c.keys = append(c.keys, w.Key)
		}
	}
	slices.Sort(c.keys)
	for range tries {
		holds, err := c.compare()
		if err == nil && !holds && c.lost > 0 { // it may be this commit itself that changed them, late
			ok, version, err = c.found()
			return version, ok, err
		}
		if err != nil || !holds {
			return 0, false, err
		}
		if err := c.build(); err != nil {
			return 0, false, err
		}
		done, version, err := c.try()
		if err != nil || done {
			return version, done, err
		}
	}
	return 0, false, nil
}

// commit is a transaction on its way.
type commit struct {
	s      *space
	ctx    context.Context
	id     commitID
	keys   []string
	checks map[string]int64
	writes map[string]kvledger.Write

	nodes map[string]node // as they are taken to be
	epoch int32

	ops     []any
	about   []string          // which node each is about
	key     map[string]string // of a node that is written
	after   map[string]node   // what the keys are when it is done
	buried  []string          // keys that it deletes
	made    []string          // directories that it makes
	instead map[string]string // by key that is to be absent: the highest node above it that is missing
	lost    int               // replies that were lost
	witness string            // a key that it writes; by it a lost reply is found
	before  node              // what that was
}

// compare looks whether the keys are what they are to be, by what is known of them; what isn't known is read.
func (c *commit) compare() (holds bool, err error) {
	s := c.s
	now, _, _ := s.clock.now()
	var missing []string
	c.nodes = map[string]node{}
	s.mu.Lock()
	c.epoch = s.epoch
	for _, k := range c.keys {
		n, known := s.seen[k]
		want, checked := c.checks[k]
		switch {
		case !known && !checked && !c.writes[k].Delete:
			n = node{epoch: c.epoch} // it is new, in all likelihood
		case !known, checked && n.visible(now) != want, n.there && n.epoch != c.epoch:
			missing = append(missing, k)
			continue
		}
		c.nodes[k] = n
	}
	s.mu.Unlock()
	if len(missing) == 0 {
		return true, nil
	}
	for some := range slices.Chunk(missing, kvledger.MaxOps) {
		nodes, now, err := s.read(c.ctx, some)
		if err != nil {
			return false, err
		}
		for i, k := range some {
			if want, checked := c.checks[k]; checked && nodes[i].visible(now) != want {
				return false, nil
			}
			c.nodes[k] = nodes[i]
		}
	}
	return true, nil
}

// build puts the multi together.
func (c *commit) build() error {
	if err := c.directories(); err != nil {
		return err
	}
	s := c.s
	c.ops, c.about, c.key, c.after, c.buried = nil, nil, map[string]string{}, map[string]node{}, nil
	c.add(s.at("epoch"), &zk.CheckVersionRequest{Path: s.at("epoch"), Version: c.epoch})
	for _, dir := range c.made {
		c.add(dir, &zk.CreateRequest{Path: dir, Acl: s.openACL(), Flags: zk.FlagPersistent})
	}
	told := false // whether an answer will have a Stat in it
	now, _, _ := s.clock.now()
	for _, k := range c.keys {
		n, name := c.nodes[k], s.nodePath(k)
		w, writes := c.writes[k]
		_, checked := c.checks[k]
		content := content{kind: kindValue, id: c.id, ttl: w.TTL, value: w.Value, again: n.again || n.kind == kindDeleted || n.kind == kindMortal && n.visible(now) == 0}
		if w.TTL > 0 {
			content.kind = kindMortal
		}
		version := int32(-1)
		if checked {
			version = n.version
		}
		made := slices.Contains(c.made, name) // as a directory: that shows also that there was none
		switch {
		case writes && w.Delete && n.visible(now) != 0:
			content.kind, content.value, content.ttl = kindDeleted, nil, 0
			if !n.again || rand.IntN(comeAndGo) == 0 {
				c.buried = append(c.buried, k)
			}
		case writes && w.Delete, !writes:
			if checked && !made {
				c.check(k, name, n)
			}
			continue
		}
		c.key[name] = k
		c.after[k] = node{there: true, version: n.version + 1, content: content}
		if made {
			version = -1
		}
		if n.there || made {
			c.add(name, &zk.SetDataRequest{Path: name, Data: content.bytes(), Version: version})
			told = true
		} else {
			c.after[k] = node{there: true, content: content}
			c.add(name, &zk.CreateRequest{Path: name, Data: content.bytes(), Acl: s.openACL(), Flags: zk.FlagPersistent})
		}
		if c.witness == "" || c.lost == 0 && k == c.witness {
			c.witness, c.before = k, n
		}
	}
	if len(c.buried) > 0 {
		c.bury()
	}
	if !told {
		c.add(s.at("clock"), &zk.SetDataRequest{Path: s.at("clock"), Version: -1})
	}
	return nil
}

func (c *commit) add(name string, op any) {
	c.about, c.ops = append(c.about, name), append(c.ops, op)
}

// check makes sure that a node is as it was seen. That there is none shows by making it, and it goes at once; but where a
// key is looked for again and again it stays, as one that was deleted, so that the next one can check a version.
func (c *commit) check(key, name string, n node) {
	if n.there {
		c.add(name, &zk.CheckVersionRequest{Path: name, Version: n.version})
		return
	}
	if dir, missing := c.instead[key]; missing {
		c.add(dir, &zk.CreateRequest{Path: dir, Acl: c.s.openACL(), Flags: zk.FlagPersistent})
		c.add(dir, &zk.DeleteRequest{Path: dir, Version: -1})
		return
	}
	gone := content{kind: kindDeleted, id: c.id}
	c.add(name, &zk.CreateRequest{Path: name, Data: gone.bytes(), Acl: c.s.openACL(), Flags: zk.FlagPersistent})
	if lookedFor(key) {
		c.key[name], c.after[key] = key, node{there: true, content: gone}
		return
	}
	c.add(name, &zk.DeleteRequest{Path: name, Version: -1})
}

// directories finds out which nodes above those that are to be made are missing. For a key that is only to be absent none
// is made: where one above it is missing, that says the same.
func (c *commit) directories() error {
	s := c.s
	above := map[string][]string{} // by key: the nodes above one that is missing
	var unknown []string
	c.made, c.instead = nil, map[string]string{}
	s.mu.Lock()
	if len(s.dirs) > maxDirs {
		clear(s.dirs)
	}
	for _, k := range c.keys {
		_, checked := c.checks[k]
		w, writes := c.writes[k]
		if c.nodes[k].there || writes && w.Delete && !checked {
			continue
		}
		for _, dir := range parents(s.nodePath(k)) {
			if len(dir) > len(s.at("keys")) && !s.dirs[dir] {
				above[k] = append(above[k], dir)
				if !slices.Contains(unknown, dir) {
					unknown = append(unknown, dir)
				}
			}
		}
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	there, errs := make([]bool, len(unknown)), make([]error, len(unknown))
	each(len(unknown), func(i int) {
		there[i], errs[i] = look(c.ctx, s.conn, func(z *zk.Conn) (bool, error) {
			there, _, err := z.Exists(unknown[i])
			return there, err
		})
	})
	if err := first(errs); err != nil {
		return err
	}
	missing := map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, dir := range unknown {
		if there[i] {
			s.dirs[dir] = true
		} else {
			missing[dir] = true
		}
	}
	var looked []string
	for _, k := range c.keys {
		if w, writes := c.writes[k]; !writes && !lookedFor(k) || w.Delete {
			looked = append(looked, k)
			continue
		}
		for _, dir := range above[k] {
			if missing[dir] && !slices.Contains(c.made, dir) {
				c.made = append(c.made, dir)
			}
		}
	}
	slices.Sort(c.made) // a node comes before those below it
	for _, k := range looked {
		if i := slices.IndexFunc(above[k], func(dir string) bool { return missing[dir] && !slices.Contains(c.made, dir) }); i >= 0 {
			c.instead[k] = above[k][i]
		}
	}
	return nil
}

// try sends the multi. Neither done nor an error: something was not as it was taken to be.
func (c *commit) try() (done bool, version int64, err error) {
	s := c.s
	s.sending()
	s.changing.Add(1)
	sent := s.clock.elapsed()
	answers, password, err := onceAs(c.ctx, s.conn, func(z *zk.Conn) ([]zk.MultiResponse, error) { return z.Multi(c.ops...) })
	s.changing.Add(-1)
	switch {
	case err == nil:
		version = c.done(answers, sent)
		return true, version, nil
	case disconnected(err) && c.ctx.Err() == nil:
		if c.lost++; c.lost > hangups {
			if c.size() > 64<<10 {
				return false, 0, errTooLarge
			}
			return false, 0, err
		}
		return c.found()
	case errors.Is(err, zk.ErrNoAuth) && s.renew(password):
		return false, 0, nil
	}
	failed := slices.IndexFunc(answers, func(r zk.MultiResponse) bool { return r.Error != nil && !aborted(r.Error) })
	if failed < 0 || failed >= len(c.about) || !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoNode) {
		return false, 0, err
	}
	if c.lost > 0 { // the one whose reply was lost may have been faster
		if done, version, err = c.found(); done || err != nil {
			return done, version, err
		}
	}
	return false, 0, c.learn(c.about[failed])
}

// aborted is what the server says of the other parts of a multi that failed.
func aborted(err error) bool { return err.Error() == "unknown error: -2" }

// done remembers what the nodes are now. All of a multi has one zxid, and one time.
func (c *commit) done(answers []zk.MultiResponse, sent time.Duration) (version int64) {
	var written int64
	for i, a := range answers {
		if a.Stat == nil {
			continue
		}
		version, written = a.Stat.Mzxid, a.Stat.Mtime
		if n, ok := c.after[c.key[c.about[i]]]; ok { // it may have been written whatever it was
			n.version = a.Stat.Version
			c.after[c.key[c.about[i]]] = n
		}
	}
	c.s.clock.tell(written, sent)
	c.settle(version, written)
	return version
}

func (c *commit) settle(version, written int64) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, n := range c.after {
		n.zxid, n.written, n.epoch, n.value = version, time.UnixMilli(written), c.epoch, nil
		s.seen[k] = n
	}
	for _, dir := range c.made {
		s.dirs[dir] = true
	}
	if len(c.buried) > 0 {
		s.sweepSoon()
	}
}

// found looks, after a lost reply, whether the commit was done: its name is in what it wrote then.
func (c *commit) found() (done bool, version int64, err error) {
	if c.witness == "" {
		return false, 0, nil // it writes nothing
	}
	nodes, _, err := c.s.read(c.ctx, []string{c.witness})
	if err != nil {
		return false, 0, err
	}
	switch n := nodes[0]; {
	case n.id == c.id:
		for k := range c.after {
			if _, checked := c.checks[k]; !checked && c.nodes[k].there {
				delete(c.after, k) // it was written whatever it was: its version isn't known
			}
		}
		c.settle(n.zxid, n.written.UnixMilli())
		return true, n.zxid, nil
	case n.there == c.before.there && n.zxid == c.before.zxid:
		return false, 0, nil
	}
	return false, 0, &onerun.StoreError{
		Kind: onerun.ErrUnavailable, What: "write to the store", Path: c.s.place(), Do: "ask again",
		Err: errors.New("the connection was lost, and somebody has changed the same since: whether this was done first can't be seen"),
	}
}

// learn looks again at what a multi failed by.
func (c *commit) learn(name string) error {
	s := c.s
	if name == s.at("epoch") {
		if err := s.synced(c.ctx, s.conn); err != nil {
			return err
		}
		stat, err := look(c.ctx, s.conn, func(z *zk.Conn) (*zk.Stat, error) {
			_, stat, err := z.Get(name)
			return stat, err
		})
		if errors.Is(err, zk.ErrNoNode) {
			return s.anew(c.ctx)
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		if stat.Version < s.epoch { // the store was deleted, and made again
			clear(s.seen)
			clear(s.dirs)
		}
		s.epoch = stat.Version
		s.mu.Unlock()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, dir := range parents(name) {
		delete(s.dirs, dir)
	}
	if slices.Contains(c.made, name) {
		delete(s.dirs, name)
	}
	for _, k := range c.keys {
		if s.nodePath(k) == name {
			delete(s.seen, k)
			if _, checked := c.checks[k]; !checked {
				return c.lookAt(k)
			}
		}
	}
	return nil
}

// lookAt reads a key that is written whatever it is. The lock of the space is held.
func (c *commit) lookAt(key string) error {
	c.s.mu.Unlock()
	defer c.s.mu.Lock()
	_, _, err := c.s.read(c.ctx, []string{key})
	return err
}

// size is about how much the multi says.
func (c *commit) size() (n int) {
	for _, op := range c.ops {
		switch op := op.(type) {
		case *zk.CreateRequest:
			n += len(op.Path) + len(op.Data)
		case *zk.SetDataRequest:
			n += len(op.Path) + len(op.Data)
		}
	}
	return n
}
