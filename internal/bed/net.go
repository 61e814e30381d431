package bed

import (
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"

	"github.com/onerun-dev/onerun/internal/cutnet"
)

// FreePort is a port of this machine that nobody listens at. It is none of those that the kernel gives to connections
// (net.ipv4.ip_local_port_range begins at 32768): one of them could have it before the server does.
func FreePort() (int, error) {
	var err error
	for range 100 {
		port := 10_240 + rand.IntN(32_000-10_240)
		var l net.Listener
		if l, err = net.Listen("tcp", addr(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// URL is one of something on this machine, with parameters in pairs of name and value, of which a
// later one counts more.
func URL(scheme string, user *url.Userinfo, port int, path string, params ...string) string {
	q := url.Values{}
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	u := url.URL{Scheme: scheme, User: user, Host: addr(port), Path: "/" + path, RawQuery: q.Encode()}
	return u.String()
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addr is where the server listens.
func (d *Daemon) Addr() string { return addr(d.Port) }

// Proxy makes a network before the server that can be cut.
func (d *Daemon) Proxy() (*cutnet.Proxy, error) {
	p, err := cutnet.New(d.Addr())
	if err != nil {
		return nil, err
	}
	d.bed.AtClose(p.Close)
	return p, nil
}
