package httpconn

import (
	"context"
	"errors"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of connections.
const (
	maxConnections = 64
	readTime       = 10 * time.Second // for a request, once it has begun
	writeTime      = 10 * time.Second
	idleTime       = 5 * time.Minute // between two requests
	patience       = time.Second     // for a request, of one that is in the way of others
)

// Request is what is asked.
type Request struct {
	Method string
	Path   string // without the query
	Body   []byte
	Conn   net.Conn // whoever asks is at its other end
}

// Answer is what is said to it: JSON.
type Answer struct {
	Status int
	Body   []byte
}

// Server serves the requests of one listener.
type Server struct {
	handle  func(ctx context.Context, r Request) Answer
	refuse  func(status int, why string) Answer
	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup

	mu     sync.Mutex
	l      net.Listener
	conns  map[net.Conn]time.Time // since when it waits for a request; zero: one is being answered
	closed bool
	room   *sync.Cond
}

// Serve serves until Close: each request goes to handle, what is none is answered by refuse.
// handle may be called by several goroutines at once.
func Serve(l net.Listener, handle func(context.Context, Request) Answer, refuse func(status int, why string) Answer) *Server {
	s := &Server{handle: handle, refuse: refuse, l: l, conns: map[net.Conn]time.Time{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.room = sync.NewCond(&s.mu)
	s.serving.Go(s.accept)
	return s
}

// Close ends the serving. Requests that are being answered get until ctx ends for that; late is
// called before they are waited for, if there are any.
func (s *Server) Close(ctx context.Context, late func()) {
	s.mu.Lock()
	s.closed = true
	_ = s.l.Close()
	answering := false
	for c, since := range s.conns {
		if since.IsZero() {
			answering = true
		} else {
			_ = c.Close()
		}
	}
	s.room.Broadcast()
	s.mu.Unlock()
	if answering {
		late()
	}
	stop := context.AfterFunc(ctx, func() {
		s.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			_ = c.Close()
		}
	})
	defer stop()
	s.serving.Wait()
	s.cancel()
}

func (s *Server) accept() {
	for pause := time.Millisecond; ; {
		s.mu.Lock()
		for len(s.conns) >= maxConnections && !s.closed {
			look := time.AfterFunc(s.makeRoom(), s.room.Broadcast)
			s.room.Wait()
			look.Stop()
		}
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		c, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor left, say: somebody will close one
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
				return
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		if !s.mark(c, false) {
			_ = c.Close()
			return
		}
		s.serving.Go(func() {
			defer s.forget(c)
			s.converse(c)
		})
	}
}

// mark notes whether a connection is being answered; false: the server is closed, and it is
// not.
func (s *Server) mark(c net.Conn, busy bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	since := time.Time{}
	if !busy {
		since = time.Now()
		s.room.Signal() // whoever wants room may have it now
	}
	s.conns[c] = since
	return true
}

// makeRoom closes the connection that has waited longest for a request, if it has for some time: of
// one that was just made the request may be on its way, and must not be lost. It says when to
// look again. mu is held.
func (s *Server) makeRoom() time.Duration {
	var oldest net.Conn
	for c, since := range s.conns {
		if !since.IsZero() && (oldest == nil || since.Before(s.conns[oldest])) {
			oldest = c
		}
	}
	if oldest == nil {
		return patience
	}
	if left := patience - time.Since(s.conns[oldest]); left > 0 {
		return left
	}
	_ = oldest.Close()
	return patience
}

func (s *Server) forget(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.room.Signal()
}

// converse answers one request after the other.
func (s *Server) converse(c net.Conn) {
	r := newReader(c)
	for {
		_ = c.SetReadDeadline(time.Now().Add(idleTime))
		r.limit.N = maxHead
		if _, err := r.Peek(1); err != nil || !s.mark(c, true) {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(readTime))
		q, last, err := r.request(c)
		var answer Answer
		var wrong malformed
		switch {
		case err == nil:
			answer = s.handle(s.ctx, q)
		case errors.As(err, &wrong):
			answer, last = s.refuse(wrong.status, wrong.why), true
		default:
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(writeTime))
		if answer.write(c, last) != nil {
			return
		}
		if errors.As(err, &wrong) {
			linger(c)
		}
		if last || !s.mark(c, false) {
			return
		}
	}
}

// linger takes what a client still sends that was refused in the middle of it: else it would
// find the connection broken, and not the answer (RFC 9112, section 9.6).
func linger(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.CopyN(io.Discard, c, 1<<20)
}

// request reads one. last says that the client sends no more on this connection.
func (r *reader) request(w io.Writer) (q Request, last bool, err error) {
	line, fields, err := r.head()
	if err != nil {
		return q, false, err
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	switch {
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return q, false, malformed{505, "this is no request of HTTP/1.1"}
	case method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "":
		return q, false, bad("the request has no method")
	case !strings.HasPrefix(target, "/"):
		return q, false, bad("the request names no path")
	case version == "HTTP/1.1" && len(fields.Values("Host")) != 1:
		return q, false, bad("the request needs one Host")
	}
	q.Method = method
	q.Path, _, _ = strings.Cut(target, "?")
	last = version == "HTTP/1.0" || hasToken(fields, "Connection", "close")
	length, err := framing(fields)
	if err != nil {
		return q, false, err
	}
	if strings.EqualFold(fields.Get("Expect"), "100-continue") && length != -2 {
		if _, err := io.WriteString(w, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return q, false, err
		}
	}
	q.Body, err = r.body(length)
	if c, ok := w.(net.Conn); ok {
		q.Conn = c
	}
	return q, last, err
}

// hasToken reports whether a field lists a word.
func hasToken(fields textproto.MIMEHeader, name, word string) bool {
	for _, v := range fields.Values(name) {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), word) {
				return true
			}
		}
	}
	return false
}

func (a Answer) write(w io.Writer, last bool) error {
	b := []byte("HTTP/1.1 " + strconv.Itoa(a.Status) + " " + Words(a.Status) + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(a.Body)) + "\r\n")
	if last {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(append(b, "\r\n"...), a.Body...)
	_, err := w.Write(b)
	return err
}

// Words are what a status means, for people (RFC 9110, section 15).
func Words(status int) string {
	if s, ok := words[status]; ok {
		return s
	}
	return "Status"
}

var words = map[int]string{
	200: "OK", 202: "Accepted", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
	409: "Conflict", 410: "Gone", 413: "Content Too Large", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
	500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
	505: "HTTP Version Not Supported",
}
