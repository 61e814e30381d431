package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// space is a kvledger.Space on the nodes below a path.
//
//	keys/…    the keys, see path.go
//	clock     written to ask the server for the time
//	epoch     its version counts the sweeps, see sweep.go
//	gone/…    the names of keys that were deleted, for the sweeps
type space struct {
	*conn
	// Servers answer a session in order, so a question waits for the changes that the session asked for before it. Where many
	// share this client, questions are asked in a session of their own while changes are on their way.
	second   *conn
	changing atomic.Int32
	sending  func() // called before a change is sent: a test cuts the link there

	setUp chan struct{} // has room for one that looks at the store's own nodes

	mu    sync.Mutex
	ready bool
	many  bool            // there may be several servers, of which the one that is asked can be behind
	epoch int32           // the version of the node epoch, when it was seen last
	seen  map[string]node // what was seen last of keys
	dirs  map[string]bool // nodes that are there, or were when they were looked for
	sweep chan struct{}   // has room for one sweep at a time
	tasks sync.WaitGroup  // sweeps
	stop  context.CancelFunc
	life  context.Context // that of the sweeps, which no call waits for
}

var _ kvledger.Space = (*space)(nil)

// What is remembered at most; then all is forgotten, and looked up again where it is needed.
const (
	maxSeen = 20000
	maxDirs = 50000
)

func newSpace(ctx context.Context, c *conn) *space {
	s := &space{conn: c, second: newConn(c.config), sending: func() {}, seen: map[string]node{}, dirs: map[string]bool{}, sweep: make(chan struct{}, 1), setUp: make(chan struct{}, 1)}
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// Close implements kvledger.Space.
func (s *space) Close() error {
	s.mu.Lock()
	s.stop() // from here on no sweep begins
	s.mu.Unlock()
	s.tasks.Wait()
	_ = s.second.Close() // it never fails
	return s.conn.Close()
}

// asking is the connection for a question.
func (s *space) asking() *conn {
	if s.changing.Load() > 0 {
		return s.second
	}
	return s.conn
}

func (s *space) at(names ...string) string { return path.Join(append([]string{s.chroot}, names...)...) }

func (s *space) nodePath(key string) string {
	return s.at(append([]string{"keys"}, nodesOf(key)...)...)
}

// prepare looks at the store's own nodes, at the first call, and makes them where there are none.
func (s *space) prepare(ctx context.Context) error {
	if s.prepared() {
		return nil
	}
	select {
	case s.setUp <- struct{}{}:
		defer func() { <-s.setUp }()
	case <-ctx.Done(): // while another waits for a server
		return s.explain("open the store", outOfTime(ctx))
	}
	if s.prepared() {
		return nil
	}
	missing, err := s.open(ctx)
	if err == nil && missing {
		if err = s.make(ctx); err == nil {
			_, err = s.open(ctx)
		}
	}
	return s.explain("open the store", err)
}

func (s *space) prepared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// open looks at the store's own nodes.
func (s *space) open(ctx context.Context) (missing bool, err error) {
	const config = "/zookeeper/config"
	names := []string{s.at("epoch"), config}
	stranger := make(chan error, 1)
	go func() { stranger <- s.stranger(ctx) }() // beside the question for the nodes, which it costs nothing then
	nodes, errs := s.gets(ctx, names)
	if err := <-stranger; err != nil {
		return false, err
	}
	switch {
	case errors.Is(errs[0], zk.ErrNoNode):
		return true, nil
	case errs[0] != nil:
		return false, errs[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A server alone has an empty configuration. Who may not read it has to take it for one of several.
	s.ready, s.many, s.epoch = true, errs[1] != nil || len(nodes[1].data) > 0, nodes[0].stat.Version
	return false, nil
}

// stranger refuses a user that the store's nodes know nothing of: digest takes any name and any password, and what that
// user made, below nodes of others, those others could not read. Who says what new nodes get has thought of it.
func (s *space) stranger(ctx context.Context) error {
	if s.user == "" || s.acl != nil {
		return nil
	}
	acl, err := look(ctx, s.conn, func(z *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := z.GetACL(s.at("keys"))
		return acl, err
	})
	if err != nil { // there is no store so far, or it is one that says itself whom it keeps out
		return nil
	}
	if slices.ContainsFunc(acl, func(a zk.ACL) bool { return a.Scheme == "digest" && strings.HasPrefix(a.ID, s.user+":") }) {
		return nil
	}
	return &onerun.StoreError{
		Kind: onerun.ErrPermission, What: "open the store", Path: s.place(), Err: errors.New("its nodes were made by others than the user in the store's URL, and those could not read what this one made"),
		Do: "leave the user out, or name the one that made it (getAcl of zkCli.sh); or say with acl=… who may read what is made",
	}
}

// firstEpochs is how many versions the node epoch can begin with, at most: what says so fits into the smallest
// jute.maxbuffer that a server can be thought to have.
func firstEpochs(name string) int {
	const most, room, each = 2000, 32 << 10, 30 // bytes, and those of one change beside its path
	return max(1, min(most, room/(each+len(name))))
}

// make makes the store's own nodes.
func (s *space) make(ctx context.Context) error {
	names := parents(s.at("keys"))
	names = append(names, s.at("keys"), s.at("clock"), s.at("gone"))
	for i := range 16 {
		names = append(names, s.at("gone", strconv.FormatInt(int64(i), 16)))
	}
	names = append(names, s.at("epoch")) // last: whoever sees it sees all
	for _, name := range names {
		ops := []any{&zk.CreateRequest{Path: name, Acl: s.openACL(), Flags: zk.FlagPersistent}}
		if name == s.at("epoch") {
			// Its versions begin anywhere, so that whoever knows those of a store that was deleted finds that
			// this is another.
			for range rand.IntN(firstEpochs(name)) {
				ops = append(ops, &zk.SetDataRequest{Path: name, Version: -1})
			}
		}
		_, err := look(ctx, s.conn, func(z *zk.Conn) ([]zk.MultiResponse, error) { return z.Multi(ops...) })
		// Whoever may not create a node can well use one that is there.
		if errors.Is(err, zk.ErrNoAuth) {
			there, look := look(ctx, s.conn, func(z *zk.Conn) (bool, error) {
				there, _, err := z.Exists(name)
				return there, err
			})
			if look == nil && there {
				continue
			}
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return s.explain("make the store's nodes", err)
		}
	}
	return nil
}

// anew makes the store's own nodes again, which somebody has deleted, and with them all that is known of others.
func (s *space) anew(ctx context.Context) error {
	s.mu.Lock()
	s.ready = false
	clear(s.seen)
	clear(s.dirs)
	s.mu.Unlock()
	return s.prepare(ctx)
}

// parents are the nodes above a node, the highest first.
func parents(name string) []string {
	var up []string
	for i := 1; i < len(name); i++ {
		if name[i] == '/' {
			up = append(up, name[:i])
		}
	}
	return up
}

// got is an answer to a question for a node.
type got struct {
	data []byte
	stat *zk.Stat
}

// gets asks for many nodes at once. They share a round trip: the driver sends what it is given without waiting.
func (c *conn) gets(ctx context.Context, names []string) ([]got, []error) {
	type answer struct {
		i   int
		got got
		err error
	}
	nodes, errs := make([]got, len(names)), make([]error, len(names))
	all := make([]int, len(names))
	for i := range all {
		all[i] = i
	}
	for left := all; len(left) > 0; {
		z, password, err := c.session(ctx)
		if c.mayAskAgain(ctx, err, password) {
			continue
		}
		if err != nil {
			for _, i := range left {
				errs[i] = err
			}
			break
		}
		answers := make(chan answer, len(left))
		for _, i := range left {
			go func() {
				data, stat, err := z.Get(names[i])
				answers <- answer{i, got{data, stat}, known(err)}
			}()
		}
		var again []int
		for range left {
			select {
			case a := <-answers:
				nodes[a.i], errs[a.i] = a.got, a.err
				if c.mayAskAgain(ctx, a.err, password) {
					again = append(again, a.i)
				}
			case <-ctx.Done():
				for _, i := range left {
					errs[i] = outOfTime(ctx)
				}
				return nodes, errs
			}
		}
		left = again
	}
	return nodes, errs
}

// each does something for 0 to n-1, all at once.
func each(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// first is the first of some errors that is one: all at once they mostly say the same.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// synced makes the server that is asked catch up with the others, so that what was committed before is seen.
func (s *space) synced(ctx context.Context, c *conn) error {
	s.mu.Lock()
	many := s.many
	s.mu.Unlock()
	if !many {
		return nil
	}
	_, err := look(ctx, c, func(z *zk.Conn) (string, error) { return z.Sync(s.chroot) })
	return err
}

// Read implements kvledger.Space. Each node is as it was at some moment during the call.
func (s *space) Read(ctx context.Context, keys ...string) ([]kvledger.Entry, error) {
	nodes, now, err := s.read(ctx, keys)
	if err != nil {
		return nil, s.explain("read the store", err)
	}
	entries := make([]kvledger.Entry, len(keys))
	for i, k := range keys {
		entries[i] = nodes[i].entry(k, now)
	}
	return entries, nil
}

func (n node) entry(key string, now time.Time) kvledger.Entry {
	e := kvledger.Entry{Key: key, Version: n.visible(now)}
	if e.Version != 0 {
		e.Value = n.value
	}
	return e
}

// read looks at the nodes of keys, and remembers what it saw.
func (s *space) read(ctx context.Context, keys []string) ([]node, time.Time, error) {
	var none time.Time
	if err := s.prepare(ctx); err != nil {
		return nil, none, err
	}
	s.mu.Lock()
	epoch := s.epoch // from before: a sweep that comes between is found by the commit then
	s.mu.Unlock()
	c := s.asking()
	if err := s.synced(ctx, c); err != nil {
		return nil, none, err
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = s.nodePath(k)
	}
	answers, errs := c.gets(ctx, names)
	nodes := make([]node, len(keys))
	for i, err := range errs {
		switch {
		case err == nil:
			if nodes[i], err = nodeOf(answers[i].data, answers[i].stat, epoch); err != nil {
				return nil, none, unreadable(names[i], err)
			}
		case errors.Is(err, zk.ErrNoNode):
			nodes[i] = node{epoch: epoch}
		default:
			return nil, none, err
		}
	}
	now, err := s.judge(ctx, nodes)
	if err == nil {
		s.remember(keys, nodes)
	}
	return nodes, now, err
}

func unreadable(name string, err error) error {
	return &onerun.StoreError{
		Kind: onerun.ErrIO, What: "read the node", Path: name, Err: err,
		Do: "somebody else has written it: look at it, and restore it from a backup",
	}
}

// sure is how old what the server said of its time may be for the judgement that somebody's time has passed.
const sure = time.Second

// judge gives the time by which nodes are to be looked at. If one has died by what this client knows, the server is asked.
func (s *space) judge(ctx context.Context, nodes []node) (time.Time, error) {
	now, age, ok := s.clock.now()
	for _, n := range nodes {
		if n.kind == kindMortal && (!ok || age > sure && n.over(now)) {
			return s.ask(ctx)
		}
	}
	return now, nil
}

func (s *space) remember(keys []string, nodes []node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) > maxSeen {
		clear(s.seen)
	}
	for i, k := range keys {
		n := nodes[i]
		s.clock.seen(n.written)
		n.value = nil // the ledger has it
		s.seen[k] = n
	}
}

// enough is how old what the server said of its time may be for what is only recorded.
const enough = time.Minute

// Now implements kvledger.Space.
func (s *space) Now(ctx context.Context) (time.Time, error) {
	for {
		if now, ok := s.clock.stamp(enough); ok {
			return now, nil
		}
		if err := s.prepare(ctx); err != nil {
			return time.Time{}, err
		}
		if _, err := s.ask(ctx); err != nil { // what it says is forgotten with the connection
			return time.Time{}, s.explain("ask for the time", err)
		}
	}
}

// ask asks the server for its time, by writing.
func (s *space) ask(ctx context.Context) (time.Time, error) {
	var sent time.Duration
	write := func(z *zk.Conn) (*zk.Stat, error) {
		sent = s.clock.elapsed()
		return z.Set(s.at("clock"), nil, -1)
	}
	stat, err := look(ctx, s.conn, write)
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.anew(ctx); err != nil {
			return time.Time{}, err
		}
		stat, err = look(ctx, s.conn, write)
	}
	if err != nil {
		return time.Time{}, err
	}
	s.clock.tell(stat.Mtime, sent)
	now, _, _ := s.clock.now()
	return now, nil
}
