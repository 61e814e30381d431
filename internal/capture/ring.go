package capture

// Slack is how much more than was asked for a ring keeps: whoever masks secrets needs to
// see what comes before the first of them, and cuts it off afterwards.
const Slack = 4 << 10

// ring keeps the last size bytes, and Slack more, of what is written to it.
type ring struct {
	size  int // 0: it only counts
	total int64
	buf   []byte // as large as it has to be so far
	next  int    // where the oldest byte is, once it is full
}

func (r *ring) write(b []byte) {
	r.total += int64(len(b))
	if r.size == 0 {
		return
	}
	limit := r.size + Slack
	if len(b) >= limit {
		r.buf, r.next = append(r.buf[:0], b[len(b)-limit:]...), 0
		return
	}
	if n := min(limit-len(r.buf), len(b)); n > 0 {
		r.buf = append(r.buf, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(r.buf[r.next:], b)
		r.next = (r.next + n) % limit
		b = b[n:]
	}
}

func (r *ring) bytes() []byte {
	out := make([]byte, 0, len(r.buf))
	return append(append(out, r.buf[r.next:]...), r.buf[:r.next]...)
}
