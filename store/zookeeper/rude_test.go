package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// rude is a server that greets, and hangs up on whatever it is asked. It counts its greetings.
func rude(t testing.TB) (addr string, greeted *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err, "listen")
	t.Cleanup(func() { _ = l.Close() })
	hear := func(c net.Conn) error {
		var size uint32
		if err := binary.Read(c, binary.BigEndian, &size); err != nil {
			return err
		}
		_, err := io.CopyN(io.Discard, c, int64(size))
		return err
	}
	greeted = new(atomic.Int64)
	greet := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		if hear(c) != nil {
			return
		}
		greeted.Add(1)
		answer := struct {
			Size, Protocol, Timeout int32
			Session                 int64
			PasswordSize            int32
			Password                [16]byte
		}{Size: 36, Timeout: 6000, Session: 1, PasswordSize: 16}
		if binary.Write(c, binary.BigEndian, answer) == nil {
			_ = hear(c)
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go greet(c)
		}
	}()
	return l.Addr().String(), greeted
}

// TestHungUpOn: a server that hangs up on every question is asked again, but not as fast as that goes.
func TestHungUpOn(t *testing.T) {
	t.Parallel()
	addr, greeted := rude(t)
	s := open(t, freshURL(addr))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Locks(ctx, onerun.DefaultNamespace); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("asked: %v", err)
	}
	if n := greeted.Load(); n > 50 {
		t.Errorf("connected %d times in a second", n)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	x := &examination{s: s, ctx: ctx} // its questions are hung up on as well
	x.leftovers()
	found(t, x.findings, "sweeps", onerun.FindingUnknown, "")
}

// TestNobodyWaitsForAnother: a call ends when its own context does, also while another one looks for the store's nodes.
func TestNobodyWaitsForAnother(t *testing.T) {
	t.Parallel()
	p := proxied(t, sharedServer(t))
	p.Pass(false, false)
	s := open(t, freshURL(p.Addr()))
	patient, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Locks(patient, "ns")
		ended <- err
	}()
	for range 3 { // the first of them can be faster than the other call
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := s.Locks(ctx, "ns"); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("a call with a third of a second: %v", err)
		}
		cancel()
	}
	select {
	case err := <-ended:
		t.Fatalf("a call with half a minute has ended before: %v", err)
	default:
	}
	p.Break()
	p.Pass(true, true)
	must(t, <-ended, "the call that had half a minute")
}
