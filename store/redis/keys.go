package redis

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/onerun-dev/onerun"
)

// keys makes the keys of one namespace; see the package's documentation.
type keys string

func (s *Store) keys(namespace string) keys {
	return keys(s.cfg.prefix + ":{" + escape(namespace) + "}:")
}

// escaped reports whether a byte would end a part of a key or its hash tag, or could not be
// typed.
func escaped(b byte) bool {
	return b <= ' ' || b == '%' || b == '{' || b == '}' || b == ':' || b == 0x7f
}

// escape makes a name one that ends nothing. The empty name has a form of its own too: an empty
// hash tag is none.
func escape(name string) string {
	if name == "" {
		return "%"
	}
	var b strings.Builder
	for i := range len(name) {
		if escaped(name[i]) {
			fmt.Fprintf(&b, "%%%02X", name[i])
		} else {
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

// unescape gives the name that was escaped.
func unescape(s string) string {
	if s == "%" {
		return ""
	}
	name, err := url.PathUnescape(s) // the same form
	if err != nil {
		return s
	}
	return name
}

func (k keys) is(what string) string           { return string(k) + what }
func (k keys) dir() string                     { return k.is("dir") }
func (k keys) run(id string) string            { return k.is("run:" + id) }
func (k keys) lock(l onerun.LockName) string   { return k.is("lock:" + string(l)) }
func (k keys) out(id string, n int) string     { return k.is(fmt.Sprintf("out:%d:%s", n, id)) }
func (k keys) events(id string) string         { return k.is("ev:" + id) }
func (k keys) ops() string                     { return k.is("ops") }
func (k keys) opsOfRun(id string) string       { return k.is("ops:r:" + id) }
func (k keys) opsOfJob(job string) string      { return k.is("ops:j:" + job) }
func (k keys) byStatus(s onerun.Status) string { return k.is("z:" + string(s)) }
func (k keys) byJob(s onerun.Status, job string) string {
	return k.is("z:" + string(s) + ":" + job)
}
func (k keys) retries() string { return k.is("z:RETRY") }
func (k keys) jobs() string    { return k.is("jobs") }
func (k keys) alone() string   { return k.is("alone") }
func (k keys) paused() string  { return k.is("paused") }
func (k keys) tombs() string   { return k.is("tombs") }

// refused lists the keys that were refused by when that was, refusedJobs the unkeyed jobs.
func (k keys) refused() string     { return k.is("refused") }
func (k keys) refusedJobs() string { return k.is("refused:j") }

func (k keys) skips(job, partition string) string {
	if partition == "" {
		return k.is("skip:j:" + job)
	}
	return k.is("skip:k:" + onerun.MakeKey(job, partition))
}

func (k keys) item(job, name string) string { return k.is("item:" + itemID(job, name)) }

// itemID is an item's place in the lists of items.
func itemID(job, name string) string { return escape(job) + ":" + name }

// items is the list of items, of a job ("": of all), open: of those that are not done.
func (k keys) items(job string, open bool) string {
	list := "items"
	if open {
		list = "open"
	}
	if job != "" {
		list += ":" + job
	}
	return k.is(list)
}
