package cli

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// sweepAge is how old a socket is at least that is taken for left behind: one that was just made
// doesn't listen yet.
const sweepAge = time.Minute

// sweepSockets removes the sockets of this account whose onerun was killed before it had a guard.
// It is done when an owner was found dead, which is rare.
func sweepSockets() {
	for _, dir := range socketDirs() {
		names, _ := filepath.Glob(filepath.Join(dir, "onerun-*.sock")) // the pattern is sound
		for _, name := range names {
			st, err := os.Lstat(name)
			if err != nil || st.Mode().Type() != os.ModeSocket || time.Since(st.ModTime()) < sweepAge {
				continue
			}
			if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Geteuid() {
				continue
			}
			c, err := net.DialTimeout("unix", name, time.Second)
			if err == nil {
				_ = c.Close()
			}
			if errors.Is(err, syscall.ECONNREFUSED) { // nobody listens, and nobody ever will
				_ = os.Remove(name)
			}
		}
	}
}
