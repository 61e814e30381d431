# Words for the scripts beside. They run under sh -eu in a directory of their own, $DIR.

die() { echo "FAIL: $*"; exit 1; }

# exits CODE COMMAND...: it ends with CODE; its output is in the files out and err.
exits() {
	want=$1
	shift
	code=0
	"$@" >"$DIR/out" 2>"$DIR/err" || code=$?
	test $code = "$want" || die "$*: exit status $code, want $want: $(cat "$DIR/out" "$DIR/err")"
}

# fails CODE COMMAND...: the same of an error: one line of onerun's, and nothing else.
fails() {
	exits "$@"
	test ! -s "$DIR/out" || die "$*: standard output: $(cat "$DIR/out")"
	test "$(wc -l <"$DIR/err")" = 1 || die "$*: not one line: $(cat "$DIR/err")"
	case $(cat "$DIR/err") in
	onerun:*) ;;
	*) die "$*: $(cat "$DIR/err")" ;;
	esac
}

# says PATTERN: what the last command said as an error, or printed.
says() { grep -q -e "$1" "$DIR/err" || die "said: $(cat "$DIR/err"), want $1"; }
prints() { grep -q -e "$1" "$DIR/out" || die "printed: $(cat "$DIR/out"), want $1"; }

# both WRAPPER: kill -9 of a wrapper and its guard, so that nobody ends what it started.
both() {
	until pgrep -P "$1" -x onerun-guard >/dev/null; do sleep 0.01; done
	kill -9 $(pgrep -P "$1" -x onerun-guard) "$1"
}

# everything WRAPPER GROUP: kills both and the guard. One that is being forked just now would be missed, and close the run.
everything() {
	until pgrep -P "$1" -x onerun-guard >/dev/null; do sleep 0.01; done
	kill -STOP "$1"
	kill -9 $(pgrep -P "$1") "$1" -"$2"
}

# unguarded JOB: no guard is left that is at work for it.
unguarded() { ! pgrep -f "^onerun-guard $1" >/dev/null; }

# tmpfs DIRECTORY SIZE: an own file system.
tmpfs() { mkdir -p "$1"; mount -t tmpfs -o "size=$2,mode=0755" onerun-test "$1"; }

# etc: an own /etc, with an account 4711 whose home is $DIR/home.
etc() {
	mkdir "$DIR/etc" "$DIR/home"
	for f in ld.so.cache ld.so.conf ld.so.conf.d nsswitch.conf machine-id hosts group localtime alternatives; do
		test ! -e /etc/$f || cp -r /etc/$f "$DIR/etc/"
	done
	echo "root:x:0:0::/root:/bin/sh
tester:x:4711:4711::$DIR/home:/bin/sh" >"$DIR/etc/passwd"
	mount --bind "$DIR/etc" /etc
}

# as UID COMMAND...: as another account. Where we are not root but only called so, it is
# the same account under another number, without root's privileges.
as() {
	uid=$1
	shift
	if really_root; then
		setpriv --reuid="$uid" --regid="$uid" --clear-groups -- "$@"
	else
		unshare --user --map-user="$uid" --map-group="$uid" -- "$@"
	fi
}

# root: what follows needs accounts that really differ.
root() { really_root || die "this test changes accounts, which takes root"; }

# member UID COMMAND...: as another account that is in the group 4700 beside its own.
member() {
	uid=$1
	shift
	setpriv --reuid="$uid" --regid="$uid" --groups="$uid",4700 -- "$@"
}

# waitfor COMMAND...: until it succeeds, ten seconds at most.
waitfor() {
	for _ in $(seq 500); do
		if "$@"; then return; fi
		sleep 0.02
	done
	die "it never came to: $*"
}

# ended GROUP: none of a process group runs any more. Zombies don't; init may take its time.
ended() { ! ps -eo pgid=,stat= | awk -v g="$1" '$1 == g && $2 !~ /Z/ { found = 1 } END { exit !found }'; }

# gone PID: the same of one process.
gone() { ! ps -o stat= -p "$1" | grep -qv Z; }

# bits DIRECTORY: mode, group and name of all in it that isn't as a shared store's must be.
bits() {
	find "$1" -type d ! \( -perm 2770 -a -gid 4700 \) -printf '%m %G %p\n' -o ! -type d ! -name '*.new-*' ! \( -perm 0660 -a -gid 4700 \) -printf '%m %G %p\n'
}
allshared() { test -z "$(bits "$1")" || die "$(bits "$1")"; }

really_root() { test "$(awk '{print $2 $3}' /proc/self/uid_map)" = 04294967295; }

# give PATH...: to the account 4711.
give() { if really_root; then chown -R 4711:4711 "$@"; fi; }

# foreign: a directory of a third account.
foreign() {
	if really_root; then
		mkdir -m 0700 "$DIR/foreign"
		chown 4712 "$DIR/foreign"
		echo "$DIR/foreign"
	else
		echo /usr # root's, who is nobody we know
	fi
}

# disk: /srv is an own directory on a disk, with lib and spool in it.
disk() {
	base=$DIR/disk
	case $(stat -f -c %T "$DIR") in
	tmpfs | ramfs) # then only root has a place
		base=$(mktemp -d /var/lib/onerun-test.XXXXXX)
		trap 'rm -rf "$base"' EXIT
		;;
	esac
	mkdir -p "$base/lib" "$base/spool/cron/crontabs"
	chmod 0755 "$base"
	mount --bind "$base" /srv
}

# alone COMMAND...: where no other process can be seen.
alone() { unshare --pid --fork --mount-proc -- "$@"; }

# doctor CODE ARGUMENT...: onerun doctor alone ends with CODE.
doctor() {
	want=$1
	shift
	exits "$want" alone onerun doctor "$@"
}

# finds STATUS CHECK PATTERN: that it found; STATUS ok may not be beside a worse one.
finds() {
	grep -q -e "^$1 *$2 .*\($3\)" "$DIR/out" || die "found: $(cat "$DIR/out" "$DIR/err"), want $1 $2 $3"
	test "$1" != ok || ! grep -e "^\(danger\|warning\|unknown\) *$2 " "$DIR/out" || die "and worse"
}

# healthy: onerun doctor finds nothing above ok, but that this machine is a container or has
# no clock that is kept in step, or, in a container, that /srv is in its own layer. machine
# is then the exit status of a checklist without another bad answer.
healthy() {
	doctor 0
	if grep -v -e '^ok' -e '^STATUS' -e '^warning *\(container\|clock-in-step\) ' -e '^unknown *clock-in-step ' -e '^warning.*overlayfs' -e '^safe here' "$DIR/out"; then
		die "it should be healthy"
	fi
	machine=0
	! grep -q '^warning *container' "$DIR/out" || machine=1
}

# people: two who log in, tester and kim, and the group jobs with both in it.
people() {
	echo 'kim:x:4712:4712::/nonexistent:/bin/sh' >>/etc/passwd
	echo 'tester:x:4711:
kim:x:4712:
jobs:x:4700:tester,kim' >>/etc/group
	give "$DIR/home"
}

# person NAME COMMAND...: one of them at a terminal.
person() {
	uid=$(id -u "$1")
	shift
	(
		# Who logged in is known to the kernel where it keeps an audit (pam_loginuid(8)).
		{ echo "$uid" >/proc/self/loginuid; } 2>/dev/null || :
		member "$uid" "$@"
	)
}

# power_off: kill -9 of everything in this script's mount namespace, but itself.
power_off() {
	here=$(readlink /proc/self/ns/mnt | tr -dc 0-9)
	for p in $(find /proc/[0-9]*/ns/mnt -maxdepth 0 -lname "*$here*" 2>/dev/null | cut -d / -f 3); do
		test "$p" = $$ || kill -9 "$p" 2>/dev/null || :
	done
}
