package jobapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/httpconn"
)

// Client asks the onerun that runs this job, on a connection for each request: an item may
// take hours between two, and the connections are few.
type Client struct{ path string }

// answerTime is how long an answer may take: the store behind it has time limits of its own.
const answerTime = time.Minute

// Dial makes a client of the socket at a path.
func Dial(path string) *Client { return &Client{path} }

// Check asks whether this run still owns its lock. Errors: onerun.ErrLost when it doesn't.
func (c *Client) Check(ctx context.Context) (s Status, err error) {
	err = c.ask(ctx, "GET", PathCheck, nil, &s)
	return s, err
}

// Report says how far the job has come.
func (c *Client) Report(ctx context.Context, r Report) (a Reported, err error) {
	err = c.ask(ctx, "POST", PathReport, r, &a)
	return a, err
}

// BeginItem asks to begin an item.
func (c *Client) BeginItem(ctx context.Context, q ItemBegin) (a ItemBegun, err error) {
	err = c.ask(ctx, "POST", PathItemBegin, q, &a)
	return a, err
}

// EndItem says how an item ended.
func (c *Client) EndItem(ctx context.Context, e ItemEnd) (a ItemEnded, err error) {
	err = c.ask(ctx, "POST", PathItemEnd, e, &a)
	return a, err
}

// ask sends one request. Errors match the contract's, as far as the answer says which; an
// answer that doesn't come is onerun.ErrUnavailable.
func (c *Client) ask(ctx context.Context, method, path string, q, a any) error {
	var body []byte
	if q != nil {
		var err error
		if body, err = json.Marshal(q); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	status, b, err := httpconn.Exchange(ctx, "unix", c.path, httpconn.Sent{
		Method: method, Host: "onerun", Target: path, Body: body, Fields: map[string]string{"Content-Type": "application/json"},
	})
	if err != nil {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "ask the onerun that runs this job", Err: cause(err), Do: "it answers as long as the job's first process runs"}
	}
	switch status {
	case 200, 202, 409:
		return json.Unmarshal(b, a)
	}
	var f Failed
	if json.Unmarshal(b, &f) != nil || f.Error == "" {
		f.Error = fmt.Sprintf("it answered %d %s", status, httpconn.Words(status))
	}
	kind := map[int]error{
		400: onerun.ErrUsage, 404: onerun.ErrUsage, 405: onerun.ErrUsage, 413: onerun.ErrUsage, 431: onerun.ErrUsage, 410: onerun.ErrLost, 503: onerun.ErrUnavailable,
	}[status]
	if kind == nil {
		kind = onerun.ErrInternal
	}
	return answered{kind, f.Error}
}

// answered is an error in the words of the other side, of a kind of the contract's.
type answered struct {
	kind error
	text string
}

func (e answered) Error() string        { return e.text }
func (e answered) Is(target error) bool { return target == e.kind }

// cause drops the request from an error of the HTTP client: the reader knows what was asked.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
