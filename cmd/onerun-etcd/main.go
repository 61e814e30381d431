// Command onerun-etcd is onerun with the store on etcd, whose client would weigh on every start on
// the other stores. onerun becomes it when it needs that. Nobody needs to type its name.
package main

import (
	"context"
	"os"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/cmd/internal/cli"
	"github.com/onerun-dev/onerun/cmd/internal/web"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/store/etcd"
	"github.com/onerun-dev/onerun/store/hostlock"
)

func main() { os.Exit(cli.Main(open, web.Serve)) }

func open(ctx context.Context, storeURL, lockDir string, looking bool) (onerun.Store, error) {
	if !strings.HasPrefix(storeURL, "etcd:") {
		return nil, cli.ErrNotLinked
	}
	s, err := etcd.Open(ctx, storeURL, etcd.WithWorker(filelock.ThisWorker))
	if err != nil {
		return nil, err
	}
	if lockDir == "" {
		return s, nil
	}
	h, err := hostlock.Open(s, lockDir, hostlock.Options{Name: s.Name(), Looking: looking})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return h, nil
}
