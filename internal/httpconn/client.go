package httpconn

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sent is a request as it goes out.
type Sent struct {
	Method string
	Host   string
	Target string // path and query
	Fields map[string]string
	Body   []byte
}

// Exchange connects, sends one request, and reads the answer, of whose body it takes 64 KiB at
// most. ctx bounds it all. It follows no redirect and asks no proxy.
func Exchange(ctx context.Context, network, address string, q Sent) (status int, body []byte, err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	if err := q.write(conn); err != nil {
		return 0, nil, err
	}
	return newReader(conn).answer()
}

func (q Sent) write(w io.Writer) error {
	fields := []string{"Host: " + q.Host, "Connection: close", "Content-Length: " + strconv.Itoa(len(q.Body))}
	for name, value := range q.Fields {
		fields = append(fields, name+": "+value)
	}
	slices.Sort(fields[1:])
	head := append([]string{q.Method + " " + q.Target + " HTTP/1.1"}, fields...)
	for _, line := range head {
		if strings.ContainsAny(line, "\r\n\x00") {
			return errors.New("a line of the request has an end in it")
		}
	}
	_, err := w.Write(append([]byte(strings.Join(head, "\r\n")+"\r\n\r\n"), q.Body...))
	return err
}

var errNotHTTP = errors.New("the answer is not of HTTP/1.1")

// answer reads the answer to the one request of a connection: up to its end, if nothing else
// says where that is. An answer that is too long is cut.
func (r *reader) answer() (status int, body []byte, err error) {
	for {
		line, fields, err := r.head()
		if line != "" && !strings.HasPrefix(line, "HTTP/1.") {
			return 0, nil, errNotHTTP
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		_, rest, _ := strings.Cut(line, " ")
		code, _, _ := strings.Cut(rest, " ")
		if status, err = strconv.Atoi(code); err != nil || len(code) != 3 || status < 100 {
			return 0, nil, errNotHTTP
		}
		if status < 200 && status != 101 { // more is to come
			continue
		}
		if status == 101 || status == 204 || status == 304 { // what follows is no body
			return status, nil, nil
		}
		length, err := framing(fields)
		switch {
		case errors.Is(err, errTooLarge), err == nil && length == -2:
			body, err = io.ReadAll(io.LimitReader(r, maxBody))
		case err == nil:
			body, err = r.body(length)
		}
		if errors.Is(err, errTooLarge) {
			err = nil
		}
		return status, body, err
	}
}
