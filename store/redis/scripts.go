package redis

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// version is that of what is kept in a namespace. A later one is refused.
const version = "1"

//go:embed lua/begin.lua
var luaBegin string

//go:embed lua/lib.lua
var luaLib string

//go:embed lua/first.lua
var luaFirst string

//go:embed lua/end.lua
var luaEnd string

//go:embed lua/sha256.lua
var luaSHA256 string

//go:embed lua/seen.lua
var luaSeen string

//go:embed lua/claim.lua
var luaClaim string

//go:embed lua/heartbeat.lua
var luaHeartbeat string

//go:embed lua/report.lua
var luaReport string

//go:embed lua/finish.lua
var luaFinish string

//go:embed lua/look.lua
var luaLook string

//go:embed lua/apply.lua
var luaApply string

// scripts are what the server is asked to execute.
type scripts struct{ claim, heartbeat, report, finish, look, apply, note *driver.Script }

func newScripts() scripts {
	return scripts{
		claim:     driver.NewScript(luaBegin + luaFirst + luaLib + luaSHA256 + luaSeen + luaClaim),
		heartbeat: driver.NewScript(luaBegin + luaHeartbeat),
		report:    driver.NewScript(luaBegin + luaReport),
		finish:    driver.NewScript(luaBegin + luaEnd + luaLib + luaFinish),
		look:      driver.NewScript(luaBegin + luaSeen + luaLook),
		apply:     driver.NewScript(luaBegin + luaLib + luaApply),
		note:      driver.NewScript(luaBegin + luaNote),
	}
}

// call asks the server to execute a script, in one round trip once it knows it. The script must
// be one that may be asked again when its reply was lost: where the connection turns out to be
// broken, another one is tried.
func (s *Store) call(ctx context.Context, script *driver.Script, k keys, names []string, args ...any) (any, error) {
	return persist(ctx, func() (any, error) { return s.once(ctx, script, k, names, args...) })
}

// once is call for what must not be asked again without looking first.
func (s *Store) once(ctx context.Context, script *driver.Script, k keys, names []string, args ...any) (any, error) {
	return inTime(ctx, func() (any, error) {
		return script.Run(ctx, s.db, names, append([]any{string(k)}, args...)...).Result()
	})
}

// persist tries again what met a connection that was broken already, or broke.
func persist[T any](ctx context.Context, try func() (T, error)) (T, error) {
	v, err := try()
	for range 2 {
		if !broken(err) || ctx.Err() != nil {
			break
		}
		v, err = try()
	}
	return v, err
}

// broken reports whether a connection ended while it was used. A server that isn't there, and
// one that is silent, is no reason to ask again at once.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed)
}

// inTime ends with ctx, whatever the driver does: it knows of a deadline, but doesn't hear that
// a context is cancelled while it waits for an answer.
func inTime[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := f()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// reply reads the answer of a script, which is this program's own: whatever is not as expected
// is noted, and told once all is read.
type reply struct {
	at  []any
	err error
}

func replyOf(v any) *reply {
	list, ok := v.([]any)
	if !ok {
		return &reply{err: fmt.Errorf("%T is no list", v)}
	}
	return &reply{at: list}
}

func (r *reply) bad(i int, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("its part %d is no %s", i, want)
	}
}

// text is a part that is a text; "" where there is none.
func (r *reply) text(i int) string {
	if i >= len(r.at) || r.at[i] == nil {
		return ""
	}
	s, ok := r.at[i].(string)
	if !ok {
		r.bad(i, "text")
	}
	return s
}

// number is a part that is a number in digits; 0 where there is none.
func (r *reply) number(i int) int64 {
	s := r.text(i)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		r.bad(i, "number")
	}
	return n
}

// list is a part that is a list; nil where there is none.
func (r *reply) list(i int) []any {
	if i >= len(r.at) || r.at[i] == nil {
		return nil
	}
	l, ok := r.at[i].([]any)
	if !ok {
		r.bad(i, "list")
	}
	return l
}

// badAnswer can't happen: the scripts are this program's own. What they read may have been
// written by somebody else.
func badAnswer(what string, err error) error {
	return &onerun.StoreError{
		Kind: onerun.ErrInternal, What: what, Err: fmt.Errorf("the answer can't be read: %w", err),
		Do: "has another program written to these keys? else please report this",
	}
}
