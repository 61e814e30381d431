package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/onerun-dev/onerun"
)

// lockFiles looks at what is in the lock directory.
func (x *examination) lockFiles() error {
	dir := x.s.lockDir
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		x.add("lock-directory", onerun.FindingUnknown, dir+" is not there yet: the next start makes it", "")
		return nil
	}
	strange, err := x.s.dir.Foreign()
	if err != nil {
		return err
	}
	if n := len(strange); n > 0 {
		named := strings.Join(strange[:min(n, most)], ", ")
		if n > most {
			named += fmt.Sprintf(" and %d more", n-most)
		}
		x.add("lock-files", onerun.FindingWarning, fmt.Sprintf("%s holds files that are not onerun's: %s; whose directory is it?", dir, named), "give the locks a directory of their own")
	}
	x.fine("lock-directory", dir)
	x.fine("lock-files", "plain files, all of them onerun's")
	return nil
}
