# onerun as the first process of a container: what it inherits it waits for, and the job's
# status is its own; a signal, which would be the death of any other process, ends it too.
mkdir -m 0700 "$DIR/store"
export ONERUN_STORE="sqlite:$DIR/store"

# orphans: as many as the first argument says are left to PID 1, and end, all in one moment,
# while the job runs on until none of them is left, zombies included; it exits with 7.
cat >"$DIR/orphans" <<'job'
mkfifo gate begun
# Held for reading and writing, so that nobody sees an end of file before the gate is closed,
# nor waits for somebody to open it.
exec 8<>begun 9<>gate
i=0
while test $i -lt $1; do
	( { echo begun >&8; read x; exit 3; } <gate 9>&- & )
	i=$((i + 1))
done
head -n $1 <&8 >/dev/null
exec 9>&-
# Beside this shell, a guard is what PID 1 may have.
left() { cat /proc/[0-9]*/stat 2>/dev/null | awk '$3 == "Z" { z++ } $4 == 1 { n++ } END { print z + 0, "zombies of", n + 0 }'; }
i=0
until case $(left) in "0 zombies of "[12]) ;; *) false ;; esac do
	i=$((i + 1))
	test $i -lt 200 || { echo "left: $(left)"; exit 1; }
	sleep 0.05
done
rm gate begun
exit 7
job
for how in "run settle" "run settle --hold tree" "lock L"; do
	exits 7 alone onerun $how -- sh "$DIR/orphans" 300
done
for status in '"FAILED"' '"exit_code": 7' '"reason": "exit"'; do
	exits 0 onerun history settle --json
	test "$(grep -c "$status" "$DIR/out")" = 2 || die "$(cat "$DIR/out")"
done

# A signal is passed on to the job, and the end recorded.
# first SIGNAL COMMAND ARGUMENT...: it comes when COMMAND succeeds; the exit status is in code.
first() {
	signal=$1
	ready=$2
	shift 2
	rm -f up log
	unshare --pid --fork --kill-child --mount-proc -- onerun "$@" >"$DIR/out" 2>"$DIR/err" &
	outside=$!
	waitfor $ready
	kill -"$signal" "$(pgrep -P $outside)"
	code=0
	wait $outside || code=$?
}
up() { test -e up; }
for s in TERM:143 HUP:129; do
	first ${s%:*} up run settle -- sh -c 'touch up; sleep 60'
	test $code = ${s#*:} || die "$s: exit status $code: $(cat "$DIR/err")"
	exits 0 onerun history settle --json --limit 1
	prints "\"signal\": \"SIG${s%:*}\""
done
first TERM up run settle -- sh -c 'trap "exit 9" TERM; touch up; while :; do sleep 0.01; done'
test $code = 9 || die "exit status $code: $(cat "$DIR/err")"

# One that waits for a retry has nothing to pass it on to.
resting() { grep -q event=retry_waiting log 2>/dev/null; }
first TERM resting run settle --retries 1 --backoff 1h..1h --log-level info --log-file log -- false
test $code = 143 || die "while it waits for a retry: exit status $code: $(cat "$DIR/err")"
