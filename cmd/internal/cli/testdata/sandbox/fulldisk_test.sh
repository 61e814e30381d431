# A full disk is 74, with what to do. Nothing starts, nothing is lost, nothing is left to be
# cleaned by hand.
tmpfs store 800k
export ONERUN_STORE="sqlite:$DIR/store"
fill() {
	dd if=/dev/zero of=store/filler bs=4k 2>/dev/null || :
	dd if=/dev/zero of=store/rest bs=1 2>/dev/null || :
}
free() { rm -f store/filler store/rest; }

# Before the first use, and later, in either mode.
fill
fails 74 onerun run settle --date 2026-09-15 -- touch ran
says 'free some space'
fails 74 onerun lock report -- touch ran
free
exits 0 onerun run settle --date 2026-09-15 -- echo settled
prints settled
fill
fails 74 onerun run settle --date 2026-09-16 -- touch ran
fails 74 onerun run settle --date 2026-09-16 --lock-mode create -- touch ran
fails 74 onerun run other --lock-mode create -- touch ran
fails 74 onerun lock other -- touch ran
fails 74 onerun run settle --date 2026-09-16 -E 0 --blocked-code 0 -w 1 -- touch ran
free
test ! -e ran || die "it ran"
ls -A store/locks | grep -q -e new -e excl && die "left over: $(ls -A store/locks)"
exits 0 onerun run settle --date 2026-09-16 -- echo settled
prints settled
exits 0 onerun run other --lock-mode create -- true
exits 0 onerun lock other -- true
exits 0 onerun show settle:2026-09-16 --json
prints '"skipped": \[\]'

# While the job runs: its end is kept all the same, in room that was put by, and the next
# start records it: 76 for a success, the job's own code for a failure.
fill_and() { echo "dd if=/dev/zero of=store/filler bs=4k 2>/dev/null; dd if=/dev/zero of=store/rest bs=1 2>/dev/null; $1"; }
exits 76 onerun run settle --date 2026-09-17 --finish-wait 1s -c "$(fill_and 'echo done')"
prints done
says 'not recorded yet.*free some space'
test "$(wc -l <err)" = 1 || die "$(cat err)"
fails 74 onerun run settle --date 2026-09-17 -- touch ran
fails 74 onerun run settle --date 2026-09-18 -- touch ran
fails 74 onerun run settle --date 2026-09-18 --lock-mode create -- touch ran
free
exits 75 onerun run settle --date 2026-09-17 -E 75 -- touch ran
exits 0 onerun show settle:2026-09-17 --json
prints '"status": "SUCCEEDED"'
prints '"attempt": 1,'
exits 3 onerun run settle --date 2026-09-18 --finish-wait 1s -c "$(fill_and 'exit 3')"
free
exits 79 onerun run settle --date 2026-09-18 -- touch ran
exits 0 onerun show settle:2026-09-18 --json
prints '"exit_code": 3'
prints '"reason": "exit"'
test ! -e ran || die "it ran"

# The lock files on a disk of their own.
tmpfs locks 64k
exits 0 onerun run aside --lock-dir "$DIR/locks" -- true
dd if=/dev/zero of=locks/filler bs=4k 2>/dev/null || :
fails 74 onerun run beside --lock-dir "$DIR/locks" -- touch ran
fails 74 onerun run beside --lock-dir "$DIR/locks" --lock-mode create -- touch ran
rm locks/filler
exits 0 onerun run beside --lock-dir "$DIR/locks" --lock-mode create -- true
exits 0 onerun history --status failed --json
test "$(grep -c '"run_id"' out)" = 1 || die "$(cat out)"

# A log that can't be written doesn't stop a job.
exits 0 onerun run settle --log-file /dev/full --log-level info -- echo settled
prints settled
exits 0 sh -c 'onerun run settle --log-level info -- echo settled 2>/dev/full'
