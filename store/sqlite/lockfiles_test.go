package sqlite_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// removeLockFile deletes a lock's file.
func (b *bed) removeLockFile(lock onerun.LockName) {
	b.t.Helper()
	if err := os.Remove(b.LockPath(lock)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
}

// tearLockFile leaves half a note in a lock's file.
func (b *bed) tearLockFile(lock onerun.LockName) {
	b.t.Helper()
	if err := os.Truncate(b.LockPath(lock), 40); err != nil {
		b.t.Fatal(err)
	}
}

// foreignNote puts the note of some other run into a lock's file, one that the ledger
// doesn't know and whose owner is dead.
func (b *bed) foreignNote(lock onerun.LockName) {
	b.t.Helper()
	w := filelock.ThisWorker("")
	note, err := json.Marshal(filelock.Note{
		Kind: lock.Kind(), Name: lock.Name(), Namespace: onerun.DefaultNamespace, State: filelock.StateInProcess, Flock: true,
		Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()), Attempt: 1, StartedAt: time.Now(),
		Host: w.Host, Machine: w.Machine, Boot: w.Boot, PIDNS: w.PIDNS, TimeNS: w.TimeNS, PID: w.PID, StartTicks: w.StartTicks - 1,
	})
	if err == nil {
		err = os.WriteFile(b.LockPath(lock), append(note, '\n'), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// torn leaves half a note in a lock's file, whatever stands there.
func (b *bed) torn(lock onerun.LockName) {
	b.t.Helper()
	if err := os.WriteFile(b.LockPath(lock), []byte(`{"kind":"name","name":"db","own`), 0o600); err != nil {
		b.t.Fatal(err)
	}
}
