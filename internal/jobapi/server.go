package jobapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/httpconn"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// closeTime is how long what is being answered when the job has ended gets for that.
const closeTime = 200 * time.Millisecond

// Owner is the run that a server is for; see onerun.Owner.
type Owner interface {
	Run() onerun.Run
	Lease() onerun.Lease
	Report(ctx context.Context, p onerun.Progress) error
	Progress() onerun.Progress
	Skip(why string) error
}

// Config is what a server works with.
type Config struct {
	Owner    Owner
	Store    onerun.Store
	Worker   onerun.Worker       // this process, whose kernel is the job's
	Timeout  time.Duration       // how long the store may take to answer
	Stopping func() bool         // whether the job is being stopped
	Redact   func(string) string // masks secrets, beside what every store masks
}

// Server serves one run of a job.
type Server struct {
	Config
	http   *httpconn.Server
	counts sync.Mutex // one report at a time
	ends   ends
}

// Serve listens at a path, which nobody but this account may use, and serves until Close.
func Serve(path string, with Config) (*Server, error) {
	// The mode that the socket has before it gets its name is the name's (unix_bind in
	// net/unix/af_unix.c): nobody else can come even for a moment.
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if cerr := raw.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
			return cerr
		}
		return err
	}}
	l, err := c.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	x := &Server{Config: with}
	x.http = httpconn.Serve(l, x.handle, func(status int, why string) httpconn.Answer { return answer(status, Failed{Error: why}) })
	return x, nil
}

// Close ends the serving, and removes the socket. Requests that are being answered get a moment
// for that; late is called first if there are any. It gives the ends of items that could not be
// recorded.
func (x *Server) Close(late func()) []onerun.ItemEnd {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	x.http.Close(ctx, late)
	return x.ends.close()
}

// handle answers one request.
func (x *Server) handle(ctx context.Context, r httpconn.Request) (a httpconn.Answer) {
	defer func() {
		if p := recover(); p != nil { // a bug of ours is no reason for the job to lose its owner
			a = answer(500, Failed{Error: fmt.Sprintf("internal error: %v; please report this", p)})
		}
	}()
	method, do := "POST", x.report
	switch r.Path {
	case PathCheck:
		method, do = "GET", x.check
	case PathReport:
	case PathItemBegin:
		do = x.beginItem
	case PathItemEnd:
		do = x.endItem
	default:
		return answer(404, Failed{Error: "there is nothing at this path"})
	}
	if r.Method != method {
		return answer(405, Failed{Error: "this path takes " + method})
	}
	ctx, cancel := context.WithTimeout(ctx, x.Timeout)
	defer cancel()
	return do(ctx, r)
}

// peer is the process at the other end of a request's connection; false if it is none of this
// kernel's that can be seen.
func (x *Server) peer(r httpconn.Request) (procfs.Stat, bool) {
	c, ok := r.Conn.(*net.UnixConn)
	if !ok {
		return procfs.Stat{}, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return procfs.Stat{}, false
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil || cred.Pid <= 0 {
		return procfs.Stat{}, false
	}
	stat, err := procfs.ReadStat(int(cred.Pid))
	return stat, err == nil
}

func (x *Server) check(ctx context.Context, r httpconn.Request) httpconn.Answer {
	run, lease := x.Owner.Run(), x.Owner.Lease()
	if _, err := x.Store.Heartbeat(ctx, lease); err != nil {
		return fail(err)
	}
	p := x.Owner.Progress()
	return answer(200, Status{
		Job: run.Job, Namespace: run.Namespace, Key: run.Key(), RunID: lease.RunID, Attempt: lease.Attempt, Token: lease.Token,
		Stopping: x.Stopping(), Processed: p.Processed, Failed: p.Failed,
	})
}

func (x *Server) report(ctx context.Context, r httpconn.Request) httpconn.Answer {
	var q Report
	if err := read(r, &q); err != nil {
		return fail(err)
	}
	x.counts.Lock()
	defer x.counts.Unlock()
	p, err := q.progress(x.Owner.Progress())
	if err != nil {
		return fail(err)
	}
	a := Reported{Stored: true}
	if q.Skipped {
		err = x.Owner.Skip(q.Reason)
	}
	if p.Processed != nil || p.Failed != nil {
		err = errors.Join(err, x.Owner.Report(ctx, p))
	}
	if errors.Is(err, onerun.ErrLost) {
		return fail(err)
	}
	if err != nil {
		a.Stored, a.Error = false, err.Error()
	}
	now := x.Owner.Progress()
	a.Processed, a.Failed = now.Processed, now.Failed
	if !a.Stored {
		return answer(202, a)
	}
	return answer(200, a)
}

// progress is what a report makes of the counts so far.
func (q Report) progress(now onerun.Progress) (onerun.Progress, error) {
	p := onerun.Progress{Processed: q.Processed, Failed: q.Failed}
	if q.Add != nil {
		for _, c := range []struct {
			name      string
			now, to   *int64
			by        int64
			remainder **int64
		}{
			{"processed", now.Processed, q.Processed, q.Add.Processed, &p.Processed},
			{"failed", now.Failed, q.Failed, q.Add.Failed, &p.Failed},
		} {
			if c.by == 0 {
				continue
			}
			if c.to != nil {
				return p, wrong("%s can be set or added to, not both", c.name)
			}
			sum := c.by
			if c.now != nil {
				if c.by > 0 && *c.now > math.MaxInt64-c.by {
					return p, wrong("%s would be too large", c.name)
				}
				sum += *c.now
			}
			*c.remainder = &sum
		}
	}
	for name, n := range map[string]*int64{"processed": p.Processed, "failed": p.Failed} {
		if n != nil && *n < 0 {
			return p, wrong("%s would be %d; counts start at 0", name, *n)
		}
	}
	switch {
	case q.Reason != "" && !q.Skipped:
		return p, wrong("a reason goes with skipped")
	case p.Processed == nil && p.Failed == nil && !q.Skipped && q.Add == nil:
		return p, wrong("there is nothing to report; give processed, failed, add or skipped")
	}
	return p, nil
}

func (x *Server) beginItem(ctx context.Context, r httpconn.Request) httpconn.Answer {
	var q ItemBegin
	err := read(r, &q)
	if err == nil {
		q.Item, err = onerun.CleanItem(q.Item)
	}
	if err != nil {
		return fail(err)
	}
	if !x.ends.settle(ctx, x.Store, q.Item) {
		return answer(503, Failed{Error: fmt.Sprintf("how item %q ended is known, and the store doesn't take it for now", q.Item)})
	}
	c := onerun.ItemClaim{Lease: x.Owner.Lease(), Name: q.Item, Owner: onerun.NewID(), Payload: Digest(q.Payload), OnCrash: onerun.OnCrash(q.OnCrash)}
	c.Worker = x.Worker // whose kernel is the job's
	c.Worker.Label, c.Worker.PID = "", 0
	if peer, ok := x.peer(r); ok {
		c.Group = peer.PGRP
		if q.Process {
			c.Worker.PID, c.Worker.StartTicks = peer.PID, peer.StartTicks
		}
	}
	it, err := x.Store.BeginItem(ctx, c)
	var refusal *onerun.ItemRefusal
	switch {
	case errors.As(err, &refusal):
		status := 409
		if refusal.Reason == onerun.RefusedDone {
			status = 200
		}
		return answer(status, ItemBegun{Reason: string(refusal.Reason), Error: refusal.Error(), StartedAt: &refusal.Item.StartedAt})
	case err != nil:
		return fail(err)
	default:
		return answer(200, ItemBegun{Begin: true, Owner: it.Owner, Tries: it.Tries})
	}
}

func (x *Server) endItem(ctx context.Context, r httpconn.Request) httpconn.Answer {
	var q ItemEnd
	err := read(r, &q)
	if err == nil {
		q.Item, err = onerun.CleanItem(q.Item)
	}
	switch {
	case err != nil:
	case q.ExitCode != nil && (*q.ExitCode < 0 || *q.ExitCode > 255):
		err = wrong("exit_code is %d; it can be 0 to 255", *q.ExitCode)
	case !isSignal(q.Signal):
		err = wrong("signal is no name of one, such as SIGTERM")
	}
	if err == nil {
		run := x.Owner.Run()
		e := onerun.ItemEnd{
			Namespace: run.Namespace, Job: run.Job, Name: q.Item, Owner: q.Owner, State: onerun.ItemFailed,
			ExitCode: q.ExitCode, Signal: q.Signal, Error: onerun.CutError(x.Redact(q.Error)),
		}
		if q.Done {
			e.State = onerun.ItemDone
		}
		err = x.Store.EndItem(ctx, e)
		if errors.Is(err, onerun.ErrUnavailable) || errors.Is(err, onerun.ErrIO) {
			x.ends.keep(x.Store, e)
			return answer(202, ItemEnded{Error: onerun.Redact(err.Error())})
		}
	}
	if err != nil {
		return fail(err)
	}
	return answer(200, ItemEnded{Stored: true})
}

// isSignal reports whether a text has the form of a signal's name; empty: there was none.
func isSignal(name string) bool {
	return name == "" || len(name) < 20 && strings.HasPrefix(name, "SIG") && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+") == ""
}

// read takes one JSON object from a request, and nothing after it.
func read(r httpconn.Request, v any) error {
	dec := json.NewDecoder(bytes.NewReader(r.Body))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if errors.Is(err, io.EOF) {
		return wrong("the request is empty; send a JSON object")
	}
	if err != nil {
		return wrong("the request is no JSON object as documented: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return wrong("the request goes on after its JSON object")
	}
	return nil
}

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", onerun.ErrUsage, fmt.Sprintf(format, args...))
}

// fail is the answer about what went wrong.
func fail(err error) httpconn.Answer {
	status := 500
	switch {
	case errors.Is(err, onerun.ErrUsage):
		status = 400
	case errors.Is(err, onerun.ErrLost):
		status = 410
	case errors.Is(err, onerun.ErrUnavailable), errors.Is(err, onerun.ErrIO):
		status = 503
	}
	text := strings.TrimPrefix(err.Error(), onerun.ErrUsage.Error()+": ")
	return answer(status, Failed{Error: onerun.Redact(text)})
}

func answer(status int, v any) httpconn.Answer {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return httpconn.Answer{Status: 500}
	}
	return httpconn.Answer{Status: status, Body: b.Bytes()}
}
