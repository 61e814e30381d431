package cli

import (
	"io"
	"time"
)

const (
	logQueue = 256             // lines that wait for a reader; more are dropped
	logFlush = 2 * time.Second // how long the end waits for the reader of the last lines
)

// logWriter writes log lines beside the work. A reader that doesn't read, or has gone
// away, must neither stop a job nor keep its lock, nor delay the note of its start; so
// nobody waits for a line to be written, but at the end, for a while.
type logWriter struct {
	to    io.Writer
	ready <-chan struct{} // closed when a write to a closed pipe is an error, not a death
	lines chan []byte
	done  chan struct{}
}

func newLogWriter(to io.Writer, ready <-chan struct{}) *logWriter {
	w := &logWriter{to: to, ready: ready, lines: make(chan []byte, logQueue), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *logWriter) run() {
	defer close(w.done)
	<-w.ready
	for line := range w.lines {
		_, _ = w.to.Write(line) // there is nobody else to tell
	}
}

// Write takes one line. It implements io.Writer for slog, which calls it once a line.
func (w *logWriter) Write(line []byte) (int, error) {
	select {
	case w.lines <- append([]byte(nil), line...):
	default:
	}
	return len(line), nil
}

// close waits until what was taken is written, within a bound.
func (w *logWriter) close() {
	close(w.lines)
	t := time.NewTimer(logFlush)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
	}
}
