// Command onerun makes a scheduled job run once; see the README.
package main

import (
	"os"

	"github.com/onerun-dev/onerun/cmd/internal/cli"
)

func main() { os.Exit(cli.Main(nil, nil)) }
