// Command onerun makes a scheduled job run once; see the README.
package main

import "os"

func main() {
	if os.Args[0] == guardName {
		os.Exit(guardMain())
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}
