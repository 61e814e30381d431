// Command floor is the least program that does what a run on the embedded store
// must do: it links the same packages, takes a flock, opens the database, commits a
// claim, starts the command, waits for it, and commits its end. It checks nothing,
// records three columns, and judges nobody. The benchmarks hold onerun against it.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"
	"time"

	_ "github.com/alecthomas/kong"
	_ "golang.org/x/text/unicode/norm"
	_ "modernc.org/sqlite"
	_ "time/tzdata"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(dir string, argv []string) error {
	ctx := context.Background()
	fd, err := syscall.Open(dir+"/floor.lock", syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+dir+"/floor.db?_pragma=busy_timeout(10000)&_pragma=wal_autocheckpoint(128)")
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	if len(argv) == 0 { // set up
		_, err := conn.ExecContext(ctx, "PRAGMA journal_mode = WAL; CREATE TABLE run (id INTEGER PRIMARY KEY, status TEXT, at INTEGER)")
		return err
	}
	var id int64
	err = conn.QueryRowContext(ctx, "BEGIN IMMEDIATE; INSERT INTO run (status, at) VALUES ('RUNNING', ?1) RETURNING id", time.Now().UnixMicro()).Scan(&id)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE; UPDATE run SET status = 'SUCCEEDED' WHERE id = ?1; COMMIT", id)
	return err
}
