// Command onerun makes a scheduled job run once; see the README.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
