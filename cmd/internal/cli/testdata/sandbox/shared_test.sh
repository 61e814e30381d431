# A store that root and two service accounts share: each excludes the others, sees what they
# did, and takes over from them when they die; whatever their umask, and in whichever
# environment cron, sudo or systemd starts them. (B21)
root
etc
echo 'tester:x:4711:
other:x:4712:
jobs:x:4700:tester,other' >>/etc/group
echo "other:x:4712:4712::$DIR/home2:/bin/sh" >>/etc/passwd
tmpfs /var/lib 20m
give "$DIR/home"
mkdir -m 0777 "$DIR/tmp"
trap 'touch "$DIR/tmp/go"' EXIT # what was started in the background ends with the script
store=/var/lib/onerun
umask 077

# What can't be: half a command line, a group that isn't there, an account without the right.
fails 64 onerun init --shared
fails 64 onerun init --group jobs
fails 64 onerun init --shared --group nosuch
says 'no group "nosuch"'
fails 64 onerun init --shared --group 4999
fails 77 as 4711 onerun init --shared --group 4700
says 'not in it'
fails 77 member 4711 onerun init --shared --group jobs
says "$store.*as root"
test ! -e $store || die "it was made"
test ! -e "$DIR/home/.local" || die "a store at home was made"

# Private first, with a history, and jobs that run while it is opened to the group.
exits 0 onerun run settle --date 2026-09-14 -- true
exits 0 onerun run keyed --date 2026-09-14 --scope key -- true
onerun run long --date 2026-09-15 -- sh -c "touch $DIR/tmp/long; while ! test -e $DIR/tmp/go; do sleep 0.02; done" &
long=$!
onerun run long2 --lock-mode create -- sh -c "touch $DIR/tmp/long2; while ! test -e $DIR/tmp/go; do sleep 0.02; done" &
long2=$!
onerun lock waited -- sh -c "touch $DIR/tmp/waited; while ! test -e $DIR/tmp/go; do sleep 0.02; done" &
holder=$!
waitfor test -e "$DIR/tmp/long" -a -e "$DIR/tmp/long2" -a -e "$DIR/tmp/waited"
onerun run after --lock waited -w forever -- true & # opened the directory while it was private
waiter=$!
onerun lock removed -w forever -- sh -c "while ! test -e $DIR/tmp/go; do sleep 0.02; done" &
removed=$!
waitfor grep -qrs '"name":"removed".*"state":"running"' $store/locks
fails 77 member 4712 onerun run settle --store sqlite:$store -- touch "$DIR/tmp/ran"
says "$store.*permission denied"
exits 0 onerun init --shared --group jobs
prints "shared now with the group jobs (4700)"
allshared $store
exits 0 onerun init --shared --group 4700
prints 'shared already'
exits 0 onerun init
prints 'in order: shared with the group jobs (4700)'
exits 0 member 4711 onerun init
prints 'in order: shared with the group jobs (4700)'
for job in "long --date 2026-09-15" "long2 --lock-mode create" "other --lock waited"; do
	exits 75 member 4711 onerun run $job -E 75 -- touch "$DIR/tmp/ran"
done
fails 1 member 4711 onerun resolve long --as failed --reason why
touch "$DIR/tmp/go"
wait $long $long2 $holder $waiter $removed || die "a job that ran meanwhile failed"
exits 0 member 4712 onerun show long:2026-09-15 --json
prints '"status": "SUCCEEDED"'
test ! -e "$DIR/tmp/ran" || die "two ran"
exits 75 member 4711 onerun run settle --date 2026-09-14 -E 75 -- touch "$DIR/tmp/ran"
allshared $store

# Both ways: what one account runs, the others don't start; what one has done, is done.
excludes() { # excludes WHO... -- OTHER...
	one= ; while test "$1" != --; do one="$one $1"; shift; done
	shift
	rm -f "$DIR/tmp/started" "$DIR/tmp/go"
	day=$((day + 1))
	key="pair --date 2026-10-$day"
	$one onerun run $key -- sh -c "touch $DIR/tmp/started; while ! test -e $DIR/tmp/go; do sleep 0.02; done" &
	pid=$!
	waitfor test -e "$DIR/tmp/started"
	exits 75 "$@" onerun run $key -E 75 --log-level info -- touch "$DIR/tmp/ran"
	says 'reason=running'
	exits 75 "$@" onerun run pair --date 2026-11-01 -E 75 --log-level info -- touch "$DIR/tmp/ran"
	says 'reason=locked'
	exits 1 "$@" onerun lock nothing -- onerun --store sqlite:$store run pair -E 1 -- touch "$DIR/tmp/ran"
	touch "$DIR/tmp/go"
	wait $pid || die "$one: it failed"
	exits 75 "$@" onerun run $key -E 75 --log-level info -- touch "$DIR/tmp/ran"
	says 'reason=succeeded'
	exits 0 "$@" onerun history pair:2026-10-$day --json
	test "$(grep -c '"run_id"' "$DIR/out")" = 1 || die "$(cat "$DIR/out")"
	allshared $store
}
day=9
for mask in 077 027 000 0377; do
	umask $mask
	excludes env -- member 4711
	excludes member 4711 -- env
	excludes member 4712 -- member 4711
	excludes member 4711 -- member 4712
done
umask 077
test ! -e "$DIR/tmp/ran" || die "two ran"

# However the files come to be made: each is deleted, and made anew by an account with a
# umask of its own.
for who in "env" "member 4711" "member 4712"; do
	for mask in 077 027; do
		umask $mask
		rm -rf $store/locks $store/onerun.db-wal $store/onerun.db-shm
		exits 0 $who onerun run made -- true
		exits 0 $who onerun run made --date 2026-09-$day --scope key --lock-mode create -- true
		exits 0 $who onerun lock made -- true
		allshared $store
		day=$((day + 1))
	done
	rm -rf $store/onerun.db*
	exits 0 $who onerun history
	exits 0 $who onerun run made -- true
	allshared $store
	sqlite3 $store/onerun.db 'PRAGMA wal_checkpoint' >/dev/null # root's, which takes the journal away
	exits 0 $who onerun run made -- true
	allshared $store
done
umask 077

# The database made anew by several accounts at once, whose starts never see it closed.
for i in 1 2 3 4 5; do
	rm -rf $store/onerun.db* $store/locks
	pids=
	: >"$DIR/tmp/at-once-$i"
	chmod 0666 "$DIR/tmp/at-once-$i"
	for who in env "member 4711" "member 4712" env "member 4711" "member 4712"; do
		$who onerun run at-once-$i -w forever -- sh -c "echo x >>$DIR/tmp/at-once-$i" 2>>"$DIR/tmp/errors" &
		pids="$pids $!"
	done
	for pid in $pids; do wait "$pid" || die "a start failed: $(cat "$DIR/tmp/errors")"; done
	test "$(wc -l <"$DIR/tmp/at-once-$i")" = 6 || die "$(wc -l <"$DIR/tmp/at-once-$i") of 6 ran"
	allshared $store
done

# One account's owner dies: the other judges it by what it may see. While the job's group
# lives, which kill(2) says even to those who may not signal it, nobody starts.
died=1
for pair in "env:member 4711" "member 4711:env" "member 4712:member 4711"; do
	one=${pair%%:*} two=${pair#*:}
	rm -f "$DIR/tmp/pid" "$DIR/tmp/go"
	died=$((died + 1))
	$one onerun run dies-$died --date 2026-09-15 -- sh -c "echo \$\$ >$DIR/tmp/pid; exec sleep 1000" &
	wrapper=$!
	waitfor test -s "$DIR/tmp/pid"
	job=$(cat "$DIR/tmp/pid")
	real=$(ps -o ppid= -p "$job" | tr -d ' ')
	kill -9 "$real" && wait $wrapper 2>/dev/null || :
	waitfor ended "$job" # by the signal that it gets when its parent dies
	waitfor unguarded dies-$died
	rm -f "$DIR/tmp/pid"
	exits 79 $two onerun run dies-$died --date 2026-09-15 -- touch "$DIR/tmp/ran"
	exits 0 $two onerun show dies-$died:2026-09-15 --json
	prints '"reason": "owner_died"'
	exits 0 $two onerun rerun dies-$died:2026-09-15 --reason checked
	exits 0 $two onerun run dies-$died --date 2026-09-15 -- true
	exits 75 $one onerun run dies-$died --date 2026-09-15 -E 75 -- touch "$DIR/tmp/ran"

	$one onerun run lives-$died --date 2026-09-15 -- sh -c "sh -c 'echo \$\$ >$DIR/tmp/pid; while :; do sleep 0.1; done' & wait" &
	wrapper=$!
	waitfor test -s "$DIR/tmp/pid"
	left=$(cat "$DIR/tmp/pid")
	job=$(ps -o pgid= -p "$left" | tr -d ' ')
	real=$(ps -o ppid= -p "$job" | tr -d ' ')
	both "$real" && wait $wrapper 2>/dev/null || :
	waitfor gone "$real"
	exits 75 $two onerun run lives-$died --date 2026-09-15 -E 75 --log-level info -- touch "$DIR/tmp/ran"
	says "reason=running.*$left"
	env kill -9 -- -"$job"
	waitfor ended "$job"
	exits 79 $two onerun run lives-$died --date 2026-09-15 -- touch "$DIR/tmp/ran"
	exits 0 $two onerun show lives-$died:2026-09-15 --json
	prints '"reason": "owner_died"'
	allshared $store
done

# An owner that died while it was starting its job: what it started could be anywhere, and
# another account can't look into its processes. Unknown is not dead: that is a person's to
# decide, or root's, who can look. (The note is set back to that moment.)
rm -f "$DIR/tmp/pid"
member 4711 onerun run forks -- sh -c "echo \$\$ >$DIR/tmp/pid; exec sleep 1000" &
wrapper=$!
waitfor test -s "$DIR/tmp/pid"
job=$(cat "$DIR/tmp/pid")
waitfor grep -qs '"state":"running"' $store/locks/job-forks-*.lock
waitfor pgrep -f '^onerun-guard forks' # else it comes later, and closes the run
kill -9 "$(ps -o ppid= -p "$job" | tr -d ' ')" $(pgrep -f '^onerun-guard forks') && wait $wrapper 2>/dev/null || :
waitfor ended "$job"
sed 's/"state":"running"/"state":"forking"/' $store/locks/job-forks-*.lock >"$DIR/tmp/note"
cat "$DIR/tmp/note" >"$(echo $store/locks/job-forks-*.lock)"
exits 79 member 4712 onerun run forks -- touch "$DIR/tmp/ran"
exits 79 member 4712 onerun run forks -w 1 -- touch "$DIR/tmp/ran"
exits 0 member 4712 onerun stale
prints "forks .*unknown .*another account can't recognise"
exits 0 onerun run forks -- true
exits 0 member 4712 onerun history forks --status failed --json
prints '"reason": "owner_died"'
allshared $store
test ! -e "$DIR/tmp/ran" || die "two ran"

# Nor is a lock directory that is somebody's or the system's opened to the group.
mkdir -m 0700 "$DIR/apart"
chmod 0755 "$DIR/apart"
mkdir -m 0755 "$DIR/system"
mount --bind "$DIR/system" /srv
for dir in /srv /mnt /var/tmp; do
	was=$(stat -c '%a %g' $dir)
	fails 73 onerun init --shared --group "$(getent group | awk -F: '$3 > 0 { print $1; exit }')" --store "sqlite:$DIR/apart/" --lock-dir $dir
	test "$(stat -c '%a %g' $dir)" = "$was" || die "$dir was opened: $(stat -c '%a %g' $dir)"
done
