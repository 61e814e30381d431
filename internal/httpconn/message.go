package httpconn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"strings"
)

// Bounds of what is read, in bytes.
const (
	maxHead = 16 << 10
	maxBody = 64 << 10
)

// malformed is what is said of a message that is not as it should be.
type malformed struct {
	status int
	why    string
}

func (m malformed) Error() string { return m.why }

func bad(format string, args ...any) error { return malformed{400, fmt.Sprintf(format, args...)} }

// errTooLarge is a body that nobody wants to have read.
var errTooLarge = malformed{413, fmt.Sprintf("the body has more than %d bytes", maxBody)}

// reader reads messages from a connection, each of a bounded size.
type reader struct {
	*bufio.Reader
	limit *io.LimitedReader
}

func newReader(r io.Reader) *reader {
	limit := &io.LimitedReader{R: r}
	return &reader{bufio.NewReader(limit), limit}
}

// head reads the first line of a message and its fields. io.EOF: there is none.
func (r *reader) head() (line string, fields textproto.MIMEHeader, err error) {
	r.limit.N = maxHead
	defer func() {
		if err != nil && r.limit.N <= 0 {
			err = malformed{431, fmt.Sprintf("the head has more than %d bytes", maxHead)}
		}
		r.limit.N = maxBody + maxHead // for the body, and what frames it
	}()
	text := textproto.NewReader(r.Reader)
	for line == "" { // a client may leave an empty line before it (section 2.2)
		if line, err = text.ReadLine(); err != nil {
			return "", nil, err
		}
	}
	if fields, err = text.ReadMIMEHeader(); err != nil {
		var protocol textproto.ProtocolError
		if errors.As(err, &protocol) {
			err = bad("%s", protocol)
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	return line, fields, err
}

// framing says how long a body is: its length, or -1 for chunks, or -2 if nothing says so.
func framing(fields textproto.MIMEHeader) (int64, error) {
	lengths, codings := fields.Values("Content-Length"), fields.Values("Transfer-Encoding")
	switch {
	case len(codings) > 0 && len(lengths) > 0, len(codings) > 1, len(lengths) > 1:
		return 0, bad("the length of the body is said in two ways")
	case len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		return 0, malformed{501, "the transfer coding is not chunked"}
	case len(codings) == 1:
		return -1, nil
	case len(lengths) == 0:
		return -2, nil
	}
	if lengths[0] == "" || strings.Trim(lengths[0], "0123456789") != "" {
		return 0, bad("the length of the body is no number")
	}
	n, err := strconv.ParseInt(lengths[0], 10, 63)
	if err != nil || n > maxBody {
		return 0, errTooLarge
	}
	return n, nil
}

// body reads a body of a length as framing has it.
func (r *reader) body(length int64) ([]byte, error) {
	switch {
	case length == -1:
		return r.chunks()
	case length <= 0:
		return nil, nil
	}
	b := make([]byte, length)
	_, err := io.ReadFull(r, b)
	return b, err
}

// chunks reads a chunked body (section 7.1), and leaves its trailers aside.
func (r *reader) chunks() (body []byte, err error) {
	for {
		line, err := r.strictLine()
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(line, ";")
		size = strings.TrimRight(size, " \t")
		if size == "" || strings.Trim(size, "0123456789abcdefABCDEF") != "" {
			return nil, bad("the size of a chunk is no number")
		}
		n, err := strconv.ParseUint(size, 16, 63)
		if err != nil || n > uint64(maxBody-len(body)) {
			return nil, errTooLarge
		}
		if n == 0 {
			return body, r.trailers()
		}
		chunk := make([]byte, n)
		if _, err := io.ReadFull(r, chunk); err != nil {
			return nil, err
		}
		body = append(body, chunk...)
		if end, err := r.strictLine(); err != nil || end != "" {
			return nil, bad("a chunk is longer than its size")
		}
	}
}

// trailers reads what follows the chunks, up to an empty line.
func (r *reader) trailers() error {
	for {
		line, err := r.strictLine()
		if err != nil || line == "" {
			return err
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsFunc(value, control) {
			return bad("what follows the chunks is malformed")
		}
	}
}

// control reports whether a character is none that a field may hold (section 5.5 of RFC 9110).
func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// strictLine reads a line that ends as it has to. (In a head, a mere line feed will do.)
func (r *reader) strictLine() (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	text, ok := strings.CutSuffix(line, "\r\n")
	if !ok {
		return "", bad("a line between chunks doesn't end with CR LF")
	}
	return text, nil
}
