// Package web serves the pages of a scheduler. It is linked by the programs that nobody starts for each job: a server of
// HTTP costs every start.
package web

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/onerun-dev/onerun/cmd/internal/cli"
)

// What a client gets at most, so that one that doesn't read, or doesn't end its question, holds nothing.
const (
	headerWithin = 5 * time.Second
	wholeWithin  = 30 * time.Second
	idleWithin   = 2 * time.Minute
	mostHeader   = 64 << 10
)

// Serve implements cli.Web.
func Serve(ctx context.Context, addr string, pages map[string]cli.Page, ready func(addr string)) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for path, page := range pages {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			var body bytes.Buffer
			status, media := page(&body)
			w.Header().Set("Content-Type", media)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(status)
			_, _ = w.Write(body.Bytes()) // a client that has gone away needs no answer
		})
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: headerWithin, ReadTimeout: wholeWithin, WriteTimeout: wholeWithin, IdleTimeout: idleWithin, MaxHeaderBytes: mostHeader}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	ready(l.Addr().String())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err = s.Close()
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
