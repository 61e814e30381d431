# Permission is an error of its own, 77 with the path: never taken for "already running", and
# no skip is recorded. (B21)
mkdir -m 0700 store
give store
export ONERUN_STORE="sqlite:$DIR/store"
exits 0 as 4711 onerun run settle --date 2026-09-15 -- true

# The lock file of another account, or one that was made under a strict umask.
lock=$(echo store/locks/job-settle-*.lock)
chmod 0000 "$lock"
fails 77 as 4711 onerun run settle --date 2026-09-16 -- touch store/ran
says "$DIR/$lock.*permission denied"
fails 77 as 4711 onerun run settle --date 2026-09-16 -w forever -- touch store/ran
chmod 0600 "$lock"

# The lock directory, the database, the store's directory.
chmod 0000 store/locks
fails 77 as 4711 onerun run settle --date 2026-09-16 -- touch store/ran
says "$DIR/store/locks"
chmod 0500 store/locks
fails 77 as 4711 onerun run other --date 2026-09-16 -- touch store/ran
chmod 0700 store/locks
chmod 0000 store/onerun.db
fails 77 as 4711 onerun run settle --date 2026-09-16 -- touch store/ran
says "$DIR/store/onerun.db"
fails 77 as 4711 onerun history
chmod 0600 store/onerun.db
chmod 0000 store
fails 77 as 4711 onerun run settle --date 2026-09-16 -- touch /tmp/ran
fails 77 as 4711 onerun history
chmod 0700 store

# A lock directory that others can write in, or that belongs to a third.
foreign=$(foreign)
fails 77 as 4711 onerun run settle --date 2026-09-16 --lock-dir "$foreign" -- touch store/ran
says "$foreign"
mkdir -m 0777 open
give open
chmod 0777 open
fails 77 as 4711 onerun run settle --date 2026-09-16 --lock-dir "$DIR/open" -- touch store/ran
says 'chmod o-w'
chmod 1777 open
fails 77 as 4711 onerun run settle --date 2026-09-16 --lock-dir "$DIR/open" -- touch store/ran

# A log file and a calendar that can't be opened.
mkdir -m 0000 closed
fails 77 as 4711 onerun run settle --date 2026-09-16 --log-file closed/log -- touch store/ran
fails 77 as 4711 onerun run settle --date business-day --tz UTC --calendar closed/calendar -- touch store/ran

# None of it was recorded, and all of it is as before.
test ! -e store/ran || die "it ran"
exits 0 as 4711 onerun show settle:2026-09-15 --json
prints '"skipped": \[\]'
exits 0 as 4711 onerun history --json
test "$(grep -c '"run_id"' out)" = 1 || die "$(cat out)"
exits 0 as 4711 onerun run settle --date 2026-09-16 -- echo settled
prints settled

# Root under a strict umask comes first, then a service account: a store that is private to
# root, its lock files in a directory that both may use, or its lock file alone.
if really_root; then
	(
		umask 077
		mkdir roots
		exits 0 onerun run settle --store "sqlite:$DIR/roots" -- true
		mkdir -m 0755 half
		exits 0 onerun run settle --store "sqlite:$DIR/half" -- true
		chmod 0755 half/locks
	)
	for wait in -n "-w 1" "-w forever"; do
		fails 77 as 4711 onerun run settle $wait -E 0 --blocked-code 0 --store "sqlite:$DIR/roots" -- touch store/ran
		says "$DIR/roots.*permission denied.*init --shared --group G"
		fails 77 as 4711 onerun run settle $wait --store "sqlite:$DIR/half" -- touch store/ran
		says "$DIR/half/locks/job-settle-.*\.lock: permission denied.*init --shared --group G"
	done
	fails 77 as 4711 onerun lock settle --store "sqlite:$DIR/half" -- touch store/ran
	says "$DIR/half/locks"
	chmod 0666 half/locks/* half/locks/.held # and then there is the database
	fails 77 as 4711 onerun run settle --store "sqlite:$DIR/half" -- touch store/ran
	says "$DIR/half.*: permission denied.*init --shared --group G"
	# While root holds the lock it is the same: not being able to ask is not "running".
	chmod 0600 half/locks/*
	onerun run settle --store "sqlite:$DIR/half" -- sh -c 'touch up; while ! test -e go; do sleep 0.02; done' &
	waitfor test -e up
	fails 77 as 4711 onerun run settle --store "sqlite:$DIR/half" -- touch store/ran
	fails 77 as 4711 onerun run settle --store "sqlite:$DIR/half" --lock-mode create -- touch store/ran
	touch go
	wait
	exits 0 onerun history --store "sqlite:$DIR/half" --json
	test "$(grep -c '"skips": 0' out)" = 2 || die "a skip was recorded: $(cat out)"
fi

# A directory that is missing is 73, whichever it is, and is not made.
fails 73 as 4711 onerun run settle --store "sqlite:$DIR/store/no/such.db" -- touch store/ran
says "$DIR/store/no/such.db: no such file or directory"
fails 73 as 4711 onerun run settle --lock-dir "$DIR/store/no/locks" -- touch store/ran
says "$DIR/store/no/locks: no such file or directory"
fails 73 as 4711 onerun lock settle --lock-dir "$DIR/store/no/locks" -- touch store/ran
fails 73 as 4711 onerun history --store "sqlite:$DIR/store/no/"
test ! -e store/no || die "it was made"
test ! -e store/ran || die "it ran"
exits 0 as 4711 onerun show settle:2026-09-15 --json
prints '"skipped": \[\]'
