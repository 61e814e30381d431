package full

import (
	"bytes"
	"io"
	"net/http"

	"github.com/onerun-dev/onerun/internal/notify"
)

// drained is how much of an answer is read at most: enough for any server to have said what it wanted to, and no more
// than a moment of one that never ends.
const drained = 64 << 10

// post sends one request, with TLS by the system's roots and proxies by the environment. No redirect is followed: what was
// meant for one host would go to another, or be asked for again as a GET. Its time is bounded by whoever started this process.
func post(l notify.Letter) (again bool, err error) {
	req, err := http.NewRequest(http.MethodPost, l.URL, bytes.NewReader(l.Body))
	if err != nil {
		return false, bare(err)
	}
	for name, value := range l.Headers {
		req.Header.Set(name, value)
	}
	c := http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: drained, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	if err != nil {
		return true, bare(err)
	}
	// What it says counts, and that has come: how the rest of the answer ends doesn't matter.
	_, _ = io.CopyN(io.Discard, resp.Body, drained)
	_ = resp.Body.Close()
	return notify.Judge(resp.StatusCode)
}
