package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// conn is a client of the servers. It gives the driver's calls a context: each is made aside, and who gives up waiting
// hears no more of it. What it was to change may be changed later all the same, as after a lost answer; so every
// change says what it expects to find, and is looked up before it is made again.
//
// Losing the connection is not losing the session: the driver finds a server again, and calls wait for that. No lease
// hangs on a session (see the package's doc), so one that expired is replaced without a word.
type conn struct {
	config
	net   *network
	clock clock

	mu        sync.Mutex
	zk        *zk.Conn      // nil: not asked for yet
	up        bool          // there is a session
	changed   chan struct{} // closed when up changes
	told      bool          // the servers know who this is
	passwords int           // how many there were before this one
	why       error         // why there was no session, when it was last tried
	over      bool
	granted   time.Duration // the session's timeout
}

// patience is how long a call waits for a server when its context sets no limit.
const patience = 10 * time.Second

func newConn(cfg config) *conn {
	c := &conn{config: cfg, changed: make(chan struct{}), clock: clock{begun: time.Now()}}
	c.net = &network{greeting: cfg.timeout, failed: c.failed, end: make(chan struct{})}
	return c
}

// listener takes what the driver logs, for the one thing that it says nowhere else: the timeout that the server grants.
type listener struct{ c *conn }

func (l listener) Printf(format string, args ...any) {
	if !strings.HasPrefix(format, "authenticated:") || len(args) != 2 {
		return
	}
	if ms, ok := args[1].(int32); ok {
		l.c.mu.Lock()
		defer l.c.mu.Unlock()
		l.c.granted = time.Duration(ms) * time.Millisecond
	}
}

// negotiated is the session's timeout as the server grants it; 0: it isn't known.
func (c *conn) negotiated() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.granted
}

// heard is the driver's event callback. It must not wait for anything.
func (c *conn) heard(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.up
	switch e.State {
	case zk.StateHasSession:
		c.up, c.why = true, nil
	case zk.StateDisconnected, zk.StateExpired, zk.StateAuthFailed:
		c.up = false
		c.clock.forget()
	default:
	}
	if was != c.up {
		close(c.changed)
		c.changed = make(chan struct{})
	}
}

func (c *conn) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = err
}

// start makes the driver look for a server, once.
func (c *conn) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return onerun.ErrClosed
	case c.zk != nil:
		return nil
	}
	var err error
	c.zk, _, err = zk.Connect(c.servers, c.timeout, zk.WithHostProvider(c.net), zk.WithDialer(c.net.dial),
		zk.WithLogger(listener{c}), zk.WithLogInfo(true), zk.WithEventCallback(c.heard))
	return err
}

// await waits until there is a session, and gives the driver then.
func (c *conn) await(ctx context.Context) (*zk.Conn, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("after %s", patience))
		defer cancel()
	}
	for {
		c.mu.Lock()
		z, up, changed, over := c.zk, c.up, c.changed, c.over
		c.mu.Unlock()
		switch {
		case over:
			return nil, onerun.ErrClosed
		case up:
			return z, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, &unreached{c.whyNot(), context.Cause(ctx)}
		}
	}
}

// unreached says that no server was found in time. Who hears it has waited already.
type unreached struct{ why, end error }

func (u *unreached) Error() string   { return fmt.Sprintf("%v (%v)", u.why, u.end) }
func (u *unreached) Unwrap() []error { return []error{u.why, u.end} }

// whyNot is why there is no session.
func (c *conn) whyNot() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		return errors.New("no server answers")
	}
	return c.why
}

// aside makes a call of the driver, and gives up waiting when ctx ends.
func aside[T any](ctx context.Context, z *zk.Conn, call func(z *zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		v, err := call(z)
		answered <- answer{v, known(err)}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, outOfTime(ctx)
	}
}

func outOfTime(ctx context.Context) error {
	return fmt.Errorf("it didn't answer in time: %w", context.Cause(ctx))
}

// session gives the driver when there is a session, and the servers know who this is; and by which password, counted.
func (c *conn) session(ctx context.Context) (z *zk.Conn, password int, err error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	z, err = c.await(ctx)
	if err == nil {
		password, err = c.introduce(ctx, z)
	}
	return z, password, err
}

// once makes a call when there is a session. Its error is the driver's.
func once[T any](ctx context.Context, c *conn, call func(z *zk.Conn) (T, error)) (T, error) {
	v, _, err := onceAs(ctx, c, call)
	return v, err
}

func onceAs[T any](ctx context.Context, c *conn, call func(z *zk.Conn) (T, error)) (v T, password int, err error) {
	z, password, err := c.session(ctx)
	if err != nil {
		return v, password, err
	}
	v, err = aside(ctx, z, call)
	return v, password, err
}

// look makes a call that changes nothing, again after a lost connection.
func look[T any](ctx context.Context, c *conn, call func(z *zk.Conn) (T, error)) (T, error) {
	for {
		v, password, err := onceAs(ctx, c, call)
		if !c.mayAskAgain(ctx, err, password) {
			return v, err
		}
	}
}

// mayAskAgain reports whether a question may have another answer: when there is another session, or by another password.
func (c *conn) mayAskAgain(ctx context.Context, err error, password int) bool {
	return disconnected(err) && ctx.Err() == nil || errors.Is(err, zk.ErrNoAuth) && c.renew(password)
}

// introduce says who this is, before anything else is asked. The driver says it again on each new connection.
func (c *conn) introduce(ctx context.Context, z *zk.Conn) (password int, err error) {
	c.mu.Lock()
	told, password, who := c.told, c.passwords, c.user+":"+c.password
	c.mu.Unlock()
	if told || c.user == "" {
		return password, nil
	}
	_, err = aside(ctx, z, func(z *zk.Conn) (struct{}, error) { return struct{}{}, z.AddAuth("digest", []byte(who)) })
	if err == nil {
		c.mu.Lock()
		c.told = c.told || password == c.passwords
		c.mu.Unlock()
	}
	return password, err
}

// renew reports whether there is another password than the one that was not enough: the file can have a new one by now.
func (c *conn) renew(not int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == "" || c.passwords != not {
		return c.passwords != not
	}
	password, err := readPassword(c.file)
	if err != nil || password == c.password {
		return false
	}
	c.password, c.told = password, false
	c.passwords++
	return true
}

// openACL is what new nodes get. "auth", which is whoever has logged in on the connection, is written as the one user with the
// password of now: a connection that was introduced by an old one too would go on letting that in.
func (c *conn) openACL() []zk.ACL {
	if c.user == "" {
		if c.acl == nil {
			return zk.WorldACL(zk.PermAll)
		}
		return c.acl
	}
	c.mu.Lock()
	mine := zk.DigestACL(zk.PermAll, c.user, c.password)
	c.mu.Unlock()
	if c.acl == nil {
		return mine
	}
	acl := slices.Clone(c.acl)
	for i := range acl {
		if acl[i].Scheme == "auth" {
			acl[i].Scheme, acl[i].ID = mine[0].Scheme, mine[0].ID
		}
	}
	return acl
}

// Close ends the session.
func (c *conn) Close() error {
	c.mu.Lock()
	z := c.zk
	c.over, c.up = true, false
	c.mu.Unlock()
	c.net.close()
	if z != nil {
		z.Close()
	}
	return nil
}
