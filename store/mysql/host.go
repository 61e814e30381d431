package mysql

import (
	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// deadOwner finds a lock's owner among those that are proven dead. Who stands in the way on the
// claim's host is not.
func deadOwner(k onerun.HostKnowledge, l *sqlledger.LockRow) (dead onerun.DeadOwner, proven bool) {
	if l == nil || sqlledger.Living(k, l) {
		return onerun.DeadOwner{}, false
	}
	return sqlledger.DeadOwner(k, l)
}
