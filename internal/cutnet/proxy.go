// Package cutnet is a network for tests that can be cut: a proxy before a server.
package cutnet

import (
	"net"
	"sync"
)

// Proxy is a network that can be cut: what is written to it goes to a server, and back, until
// it is told otherwise. Nobody who uses it hears of a cut: connections stay open, as when a
// cable is pulled.
type Proxy struct {
	Port int

	listener net.Listener
	target   string

	mu    sync.Mutex
	cond  *sync.Cond
	up    bool // what clients say arrives
	down  bool // what the server says arrives
	conns map[net.Conn]bool
	over  bool
}

// New makes a proxy before the server at an address.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Port: l.Addr().(*net.TCPAddr).Port, listener: l, target: target, up: true, down: true, conns: map[net.Conn]bool{}}
	p.cond = sync.NewCond(&p.mu)
	go p.accept()
	return p, nil
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pass says which way anything arrives from now on: from clients (up), and from the server
// (down). What was held back arrives when its way is free again.
func (p *Proxy) Pass(up, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
	p.cond.Broadcast()
}

// Break closes every connection that there is, as a firewall does that has forgotten them.
// What was held back on them is lost. Both ends know it once it returns: Close alone leaves a
// connection as it is until whoever reads from it has been woken.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.Close()
	}
	clear(p.conns)
	p.cond.Broadcast()
}

// Close ends the proxy.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.over = true
	p.cond.Broadcast()
	p.mu.Unlock()
	p.Break()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		go p.copy(server, client, &p.up)
		go p.copy(client, server, &p.down)
	}
}

// copy carries one direction, as long as that is free.
func (p *Proxy) copy(to, from net.Conn, free *bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for !*free && !p.over && p.conns[from] {
			p.cond.Wait()
		}
		gone := p.over || !p.conns[from]
		p.mu.Unlock()
		if gone {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
