# A file system that is read-only is 73: not being able to ask is not the answer "no".
tmpfs store 4m
export ONERUN_STORE="sqlite:$DIR/store"
exits 0 onerun run settle --date 2026-09-15 -- true
mount -o remount,bind,ro store
fails 73 onerun run settle --date 2026-09-15 -- touch ran
says 'read-only'
fails 73 onerun run settle --date 2026-09-16 -E 0 --blocked-code 0 -- touch ran
fails 73 onerun run other -- touch ran
fails 73 onerun run settle --lock-mode create -- touch ran
fails 73 onerun lock report -- touch ran
fails 73 onerun rerun settle:2026-09-15 --reason why
says 'with --lock-dir'
fails 73 onerun pause settle --reason why
says 'read-only'
if grep -q -e --lock-dir "$DIR/err"; then die "a flag that it refuses: $(cat "$DIR/err")"; fi
mount -o remount,bind,rw store
test ! -e ran || die "it ran"
exits 0 onerun run settle --date 2026-09-16 -- echo settled
prints settled
exits 0 onerun show settle:2026-09-15 --json
prints '"skipped": \[\]'

# What is there can be read, by whatever the writer has left: a database in use, with a run that
# goes on; the copy of one, with its journal alone; and one whose journal was folded into it.
tmpfs all 16m
export TZ=UTC
for s in live copy clean; do
	mkdir all/$s
	ONERUN_STORE="sqlite:$DIR/all/$s" exits 0 onerun run settle --date 2026-09-15 -- echo settled
done
cp -r all/live/onerun.db all/live/onerun.db-wal all/copy/
rm all/copy/onerun.db-shm
sqlite3 all/clean/onerun.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
rm -f all/clean/onerun.db-wal all/clean/onerun.db-shm
mkfifo go
ONERUN_STORE="sqlite:$DIR/all/live" onerun run sweep -- sh -c 'echo >go; sleep 600' >/dev/null 2>&1 &
trap 'kill -9 $! 2>/dev/null || :' EXIT
read _ <go
mkdir seen
mount --bind all seen
mount -o remount,bind,ro seen
before=$(ls -R seen)
for s in live copy clean; do
	export ONERUN_STORE="sqlite:$DIR/seen/$s"
	exits 0 onerun history settle
	prints 'settle:2026-09-15  SUCCEEDED'
	exits 0 onerun logs settle:2026-09-15
	prints '^settled'
	exits 0 onerun show settle:2026-09-15
	for c in status stale locks items 'explain settle:2026-09-16'; do exits 0 onerun $c; done
done
test "$before" = "$(ls -R seen)" || die "reading made files"
export ONERUN_STORE="sqlite:$DIR/seen/live"
exits 0 onerun status
prints 'RUNNING'
exits 0 onerun locks
prints 'job/sweep '
ONERUN_STORE="sqlite:$DIR/all/live" exits 0 onerun stop sweep --reason 'enough of it'
wait
exits 0 onerun status
prints '^nothing is running'
