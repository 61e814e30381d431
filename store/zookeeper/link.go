package zookeeper

import (
	"net"
	"sync"
	"time"
)

// link is one connection to a server. The driver waits for the answer to its greeting ten times as long as for any other,
// and for the rest of an answer for ever: a server that is frozen, or cut off, would keep it from trying the next one.
type link struct {
	net.Conn
	greeting time.Duration // for how long the greeting may take

	greeted bool
	last    time.Duration // the wait that was asked for last
}

// SetReadDeadline implements net.Conn. The driver reads from one goroutine at a time.
func (l *link) SetReadDeadline(t time.Time) error {
	switch {
	case t.IsZero(): // "the rest of it, however long that takes"
		t = time.Now().Add(max(l.last, l.greeting))
	case !l.greeted:
		l.greeted, l.last = true, l.greeting
		t = time.Now().Add(l.greeting)
	default:
		l.last = time.Until(t)
	}
	return l.Conn.SetReadDeadline(t)
}

// network finds servers for the driver: it is its HostProvider and its Dialer. The driver's own waits for a second
// before it goes back to the only server there is, which is longer than the shortest lease.
type network struct {
	greeting time.Duration
	failed   func(error) // hears why a server can't be reached

	mu      sync.Mutex
	servers []string
	next    int
	tried   int       // since a connection was good for something
	since   time.Time // when a server was connected to; zero: none is
	over    bool
	end     chan struct{} // closed when over
}

// The waits between two rounds over all servers.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = 500 * time.Millisecond
	dialWait  = time.Second
	settled   = lastWait // a server that hangs up sooner counts as one that can't be reached
)

// Init implements zk.HostProvider. The names stay names: they may mean other addresses the next time.
func (n *network) Init(servers []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (n *network) Len() int { return len(n.servers) }

// Next implements zk.HostProvider. Saying that all have been tried makes the driver look whether it was closed.
func (n *network) Next() (server string, retryStart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	server = n.servers[n.next%len(n.servers)]
	n.next++
	return server, n.over
}

// Connected implements zk.HostProvider.
func (n *network) Connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.since = time.Now()
}

// dial implements zk.Dialer.
func (n *network) dial(kind, address string, _ time.Duration) (net.Conn, error) {
	n.pause()
	c, err := net.DialTimeout(kind, address, dialWait)
	if err != nil {
		n.failed(err)
		return nil, err
	}
	return &link{Conn: c, greeting: n.greeting}, nil
}

// pause waits before another round.
func (n *network) pause() {
	n.mu.Lock()
	if !n.since.IsZero() && time.Since(n.since) > settled {
		n.tried = 0
	}
	n.since = time.Time{}
	rounds := n.tried / len(n.servers)
	n.tried++
	n.mu.Unlock()
	if rounds == 0 {
		return
	}
	timer := time.NewTimer(min(firstWait<<min(rounds-1, 5), lastWait))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.end:
	}
}

// close makes the driver give up looking for a server.
func (n *network) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over {
		n.over = true
		close(n.end)
	}
}
