package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// How long it takes to notice that a connection is dead, and to give up making one.
const (
	pingEvery   = 10 * time.Second
	pingTimeout = 3 * time.Second
	dialTimeout = 10 * time.Second
	readTries   = 20 // of what only reads: another member may be up
	readPause   = 50 * time.Millisecond
)

// space is a kvledger.Space on etcd.
type space struct {
	config config
	ctx    context.Context // of the client, which outlives single calls
	now    func() time.Time
	hook   func(step string)

	connecting chan struct{} // has room for one at a time

	mu     sync.Mutex
	client *clientv3.Client         // nil: not connected yet
	users  map[*clientv3.Client]int // calls that go on
	closed bool

	leases   leases
	renewals renewals
}

func newSpace(ctx context.Context, c config) *space {
	return &space{
		config: c, ctx: context.WithoutCancel(ctx), now: time.Now, hook: func(string) {}, connecting: make(chan struct{}, 1), users: map[*clientv3.Client]int{}, leases: newLeases(),
	}
}

// connect gives the client. Making one connects to nothing, unless there is a password to show: then that can take
// long, and who waits for it gives up when its own context ends.
func (s *space) connect(ctx context.Context) (*clientv3.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if c, err := s.connected(); c != nil || err != nil {
		return c, err
	}
	select {
	case s.connecting <- struct{}{}:
		defer func() { <-s.connecting }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c, err := s.connected(); c != nil || err != nil {
		return c, err
	}
	life, cancel := context.WithCancel(s.ctx)
	stop := context.AfterFunc(ctx, cancel)
	c, err := s.newClient(ctx, life)
	if !stop() { // perhaps it is connected, and not for long
		if err == nil {
			_ = c.Close()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return nil, onerun.ErrClosed
	}
	s.client = c
	return c, nil
}

// connected gives the client that there is.
func (s *space) connected() (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, onerun.ErrClosed
	}
	return s.client, nil
}

func (s *space) newClient(ctx, life context.Context) (*clientv3.Client, error) {
	password, err := s.config.secret()
	if err != nil {
		return nil, err
	}
	secure, err := s.config.secure()
	if err != nil {
		return nil, err
	}
	timeout := dialTimeout
	if at, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(at)), time.Millisecond)
	}
	scheme := "http://"
	if secure != nil {
		scheme = "https://"
	}
	var endpoints []string
	for _, e := range s.config.endpoints {
		endpoints = append(endpoints, scheme+e)
	}
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, Username: s.config.user, Password: password, TLS: secure, Context: life,
		DialTimeout: timeout, DialKeepAliveTime: pingEvery, DialKeepAliveTimeout: pingTimeout,
		MaxUnaryRetries: readTries, BackoffWaitBetween: readPause,
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(failFast)},
		Logger:      zap.NewNop(), // its words are for its makers; the errors say the same
	})
}

// failFast lets a call fail when no server can be connected to, with the reason. etcd's client
// waits for one until the time is over, and then has nothing to say.
func failFast(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return invoker(ctx, method, req, reply, cc, append(opts, grpc.WaitForReady(false))...)
}

// acquire gives the client for a call.
func (s *space) acquire(ctx context.Context) (*clientv3.Client, error) {
	for {
		c, err := s.connect(ctx)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		mine := s.client == c
		if mine {
			s.users[c]++
		}
		s.mu.Unlock()
		if mine {
			return c, nil
		}
	}
}

// release ends a call. good is false when no other call is to begin with that client: who uses it yet goes on.
func (s *space) release(c *clientv3.Client, good bool) {
	s.mu.Lock()
	if !good && s.client == c {
		s.client = nil
	}
	s.users[c]--
	last := s.users[c] == 0
	if last {
		delete(s.users, c)
	}
	last = last && s.client != c
	s.mu.Unlock()
	if last {
		_ = c.Close()
	}
}

// patience is for how long a call must have waited in vain until another connection is made. A connection that was cut is
// noticed by itself after many seconds, and till then every other call to several servers would go there.
const patience = 100 * time.Millisecond

// call runs f with the client, and gives its error a kind. A client whose password isn't good any more has done
// nothing: f runs once more then, with the one that is in the file by now.
func (s *space) call(ctx context.Context, what string, f func(c *clientv3.Client) error) error {
	for again := true; ; again = false {
		c, err := s.acquire(ctx)
		if err != nil {
			return s.explain(ctx, what, err)
		}
		began := time.Now()
		err = f(c)
		outdated := s.config.passfile != "" && refused(err)
		silent := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(began) > patience
		s.release(c, !outdated && !silent)
		switch {
		case err == nil:
			return nil
		case !outdated || !again:
			return s.explain(ctx, what, err)
		}
	}
}

// Close implements kvledger.Space. Leases that nobody holds any more are given back.
func (s *space) Close() error {
	s.mu.Lock()
	c := s.client
	s.client, s.closed = nil, true
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	s.revokeIdle(c)
	s.renewals.close()
	return c.Close()
}

// Now implements kvledger.Space: etcd has no clock that could be asked.
func (s *space) Now(context.Context) (time.Time, error) { return s.now(), nil }

func (s *space) key(k string) string { return s.config.prefix + "/" + k }

func (s *space) entry(kv *mvccpb.KeyValue) kvledger.Entry {
	return kvledger.Entry{Key: string(kv.Key[len(s.config.prefix)+1:]), Value: kv.Value, Version: kv.ModRevision}
}

// Read implements kvledger.Space: all keys as they are at one moment, as a majority of the members
// has it.
func (s *space) Read(ctx context.Context, keys ...string) ([]kvledger.Entry, error) {
	out := make([]kvledger.Entry, len(keys))
	ops := make([]clientv3.Op, len(keys))
	for i, k := range keys {
		out[i], ops[i] = kvledger.Entry{Key: k}, clientv3.OpGet(s.key(k))
	}
	err := s.call(ctx, "read", func(c *clientv3.Client) error {
		r, err := c.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return err
		}
		for i, resp := range r.Responses {
			if kvs := resp.GetResponseRange().Kvs; len(kvs) > 0 {
				out[i] = s.entry(kvs[0])
			}
		}
		return nil
	})
	return out, err
}

// Range implements kvledger.Space.
func (s *space) Range(ctx context.Context, from, to string, limit int) (out []kvledger.Entry, err error) {
	err = s.call(ctx, "read", func(c *clientv3.Client) error {
		r, err := c.Get(ctx, s.key(from), clientv3.WithRange(s.key(to)), clientv3.WithLimit(int64(limit)))
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			out = append(out, s.entry(kv))
		}
		return nil
	})
	return out, err
}

// Commit implements kvledger.Space.
func (s *space) Commit(ctx context.Context, t kvledger.Txn) (version int64, ok bool, err error) {
	err = s.call(ctx, "write", func(c *clientv3.Client) error {
		version, ok, err = s.commit(ctx, c, t)
		return err
	})
	return version, ok, err
}

func (s *space) commit(ctx context.Context, c *clientv3.Client, t kvledger.Txn) (int64, bool, error) {
	l, alive, err := s.lease(ctx, c, t)
	if err != nil || !alive {
		return 0, false, err
	}
	var checks []clientv3.Cmp
	for _, check := range t.Checks {
		if check.Version == 0 {
			checks = append(checks, clientv3.Compare(clientv3.CreateRevision(s.key(check.Key)), "=", 0))
		} else {
			checks = append(checks, clientv3.Compare(clientv3.ModRevision(s.key(check.Key)), "=", check.Version))
		}
	}
	var writes []clientv3.Op
	for _, w := range t.Writes {
		switch {
		case w.Delete:
			writes = append(writes, clientv3.OpDelete(s.key(w.Key)))
		case w.TTL > 0:
			writes = append(writes, clientv3.OpPut(s.key(w.Key), string(w.Value), clientv3.WithLease(l.id)))
		default:
			writes = append(writes, clientv3.OpPut(s.key(w.Key), string(w.Value)))
		}
	}
	s.hook("send")
	r, err := c.Txn(ctx).If(checks...).Then(writes...).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound): // it ran out on the way here, and nothing was done
		s.leases.forget(l)
		return 0, false, nil
	case err != nil: // whether the lease has a key now is unknown: it ends by itself, or with its heartbeats
		s.leases.forget(l)
		return 0, false, err
	case !r.Succeeded:
		s.leases.unused(l)
		return 0, false, nil
	}
	s.leases.used(t, l, r.Header.Revision)
	return r.Header.Revision, true, nil
}

// lease gives the lease for the mortal key that a transaction puts, with its whole time ahead of
// it; alive is false when the key's own is gone.
func (s *space) lease(ctx context.Context, c *clientv3.Client, t kvledger.Txn) (l *lease, alive bool, err error) {
	i := slices.IndexFunc(t.Writes, func(w kvledger.Write) bool { return w.TTL > 0 })
	if i < 0 {
		return nil, true, nil
	}
	w := t.Writes[i]
	if l := s.leases.of(w, t.Checks); l != nil {
		runs, err := s.keepAlive(ctx, c, l)
		if err == nil && !runs {
			s.leases.forget(l)
		}
		return l, runs, err
	}
	ttl := seconds(w.TTL)
	for l := s.leases.idle(ttl); l != nil; l = s.leases.idle(ttl) {
		if l.fresh() {
			return l, true, nil
		}
		if runs, err := s.keepAlive(ctx, c, l); err != nil || runs {
			return l, true, err
		}
	}
	began := elapsed()
	r, err := c.Grant(ctx, s.leases.next(ttl))
	if err != nil {
		return nil, false, err
	}
	return &lease{id: r.ID, ttl: ttl, granted: r.TTL, renewed: began}, true, nil
}

// seconds is a TTL as etcd takes it: never shorter.
func seconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }
