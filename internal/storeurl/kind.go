package storeurl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
)

// Kind is a kind of store, as far as its URL tells.
type Kind int

// The kinds.
const (
	Local  Kind = iota + 1 // sqlite:PATH
	Remote                 // a store of many machines
)

const usage = "write sqlite:PATH, postgres://USER@HOST/DATABASE, mysql://…, redis://…, etcd://… or zookeeper://…"

// remote are the schemes of stores of many machines.
var remote = []string{"postgres", "postgresql", "mysql", "redis", "rediss", "etcd", "zookeeper"}

// KindOf is the kind of the store that a URL names.
//
// Errors: ErrUsage for a URL that can't be understood.
func KindOf(storeURL string) (Kind, error) {
	scheme, _, ok := strings.Cut(storeURL, ":")
	switch {
	case !ok:
		return 0, fmt.Errorf("%w: %s has no scheme; %s", onerun.ErrUsage, shown(storeURL), usage)
	case scheme == "sqlite":
		return Local, nil
	case slices.Contains(remote, scheme):
		return Remote, nil
	}
	return 0, fmt.Errorf("%w: %s has an unknown scheme; %s", onerun.ErrUsage, shown(storeURL), usage)
}

// shown names what is no store's URL. What hasn't even the form of a URL or a path can be anything: a password, or a line of the wrong file.
func shown(storeURL string) string {
	if strings.Contains(storeURL, "://") || strings.HasPrefix(storeURL, "/") || strings.HasPrefix(storeURL, ".") {
		return fmt.Sprintf("store %q", Redact(storeURL))
	}
	return "the store's URL"
}
