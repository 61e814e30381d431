// Command onerun-full is onerun with what it doesn't link itself, for the sake of its start: the
// stores of many machines, but for etcd's, which onerun-etcd has; TLS, and chat services. onerun
// starts it, or becomes it, when it needs that. Nobody needs to type its name.
package main

import (
	"context"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/cmd/internal/cli"
	"github.com/onerun-dev/onerun/cmd/internal/web"
	"github.com/onerun-dev/onerun/internal/notify/full"
	"github.com/onerun-dev/onerun/internal/stores"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "send" { // see internal/notify
		os.Exit(full.Send(os.Stdin, os.Stderr))
	}
	os.Exit(cli.Main(open, web.Serve))
}

func open(ctx context.Context, storeURL, lockDir string, looking bool) (onerun.Store, error) {
	if stores.IsEtcd(storeURL) {
		return nil, cli.ErrNotLinked
	}
	return stores.Open(ctx, storeURL, lockDir, looking)
}
