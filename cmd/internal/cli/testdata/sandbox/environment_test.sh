# Where the default store is, the user database says and nothing else: not what cron, sudo,
# systemd or a shell put into the environment. Accounts of a directory are in it, too.
root
etc
echo 'tester:x:4711:
other:x:4712:
directory:x:4713:
jobs:x:4700:tester,other,directory' >>/etc/group
echo "other:x:4712:4712::/nonexistent:/bin/sh" >>/etc/passwd
mkdir "$DIR/home3"
chown 4713 "$DIR/home3"
give "$DIR/home"
tmpfs /var/lib 20m
printf '#includedir /nothing\nDefaults !lecture\nroot ALL=(ALL:ALL) ALL\ntester ALL=(ALL) NOPASSWD: ALL\n' >/etc/sudoers
chmod 0440 /etc/sudoers
mkdir /etc/pam.d
printf 'auth sufficient pam_permit.so\naccount sufficient pam_permit.so\nsession optional pam_permit.so\n' >/etc/pam.d/sudo
program=$(command -v onerun)
day=0

# started WHERE COMMAND...: what COMMAND starts, it starts on the store at WHERE.
started() {
	where=$1
	shift
	day=$((day + 1))
	mark=$(printf 'd%03d' $day)
	exits 0 "$@" run settle --partition "$mark" -- true
	n=$(sqlite3 -readonly "$where/onerun.db" "SELECT count(*) FROM onerun_run WHERE key = 'settle:$mark'")
	test "$n" = 1 || die "$*: not in $where: $(find "$DIR/home" "$DIR/home3" /var/lib/onerun -name onerun.db)"
}

# every WHERE AS...: an account's starts in each of these environments.
every() {
	where=$1
	shift
	started "$where" "$@" env -i "$program"
	started "$where" "$@" env -i HOME=/nonexistent LOGNAME=nobody PATH=/usr/bin:/bin SHELL=/bin/sh "$program" # cron
	started "$where" "$@" env -i STATE_DIRECTORY=/tmp/state RUNTIME_DIRECTORY=/tmp/run CACHE_DIRECTORY=/tmp/cache \
		INVOCATION_ID=00112233445566778899aabbccddeeff JOURNAL_STREAM=8:1 SYSTEMD_EXEC_PID=1 "$program" # systemd
	started "$where" "$@" env HOME=/root USER=root LOGNAME=root USERNAME=root SUDO_USER=root SUDO_UID=0 SUDO_GID=0 SUDO_COMMAND=/bin/sh "$program"
	started "$where" "$@" env HOME="$DIR" USER=nobody XDG_STATE_HOME="$DIR" XDG_DATA_HOME="$DIR" XDG_CONFIG_HOME="$DIR" XDG_RUNTIME_DIR="$DIR" "$program"
	started "$where" "$@" env -u HOME -u PATH "$program"
}

every /var/lib/onerun env
every "$DIR/home/.local/state/onerun" as 4711
# sudo itself, in both directions.
started "$DIR/home/.local/state/onerun" sudo -u tester "$program"
started "$DIR/home/.local/state/onerun" sudo -E -H -u tester "$program"
started /var/lib/onerun as 4711 sudo "$program"
started /var/lib/onerun as 4711 sudo -E "$program"

# An account of a directory: no file lists it, and getent(1) knows it by its module.
mkdir /var/lib/extrausers
echo "directory:x:4713:4713::$DIR/home3:/bin/sh" >/var/lib/extrausers/passwd
echo "far:x:4714:directory" >/var/lib/extrausers/group
fails 78 as 4713 env HOME="$DIR" USER=root onerun run settle -- true
says 'no account with uid 4713'
fails 64 onerun init --shared --group far
printf 'passwd: files extrausers\ngroup: files extrausers\nshadow: files\n' >/etc/nsswitch.conf
every "$DIR/home3/.local/state/onerun" as 4713
exits 0 as 4713 env USER=root onerun pause settle --reason why
exits 0 as 4713 onerun status --json
prints '"paused_by": "directory@'

# So are groups: by name, by number, and by the account's membership in them.
mkdir "$DIR/far" "$DIR/far2"
chown 4713 "$DIR/far" "$DIR/far2"
exits 0 onerun init --shared --group far --store "sqlite:$DIR/far/"
prints 'group far (4714)'
test "$(stat -c '%a %g' "$DIR/far")" = "2770 4714" || die "$(ls -la "$DIR/far")"
exits 0 setpriv --reuid=4713 --regid=4713 --groups=4714 onerun init --shared --group 4714 --store "sqlite:$DIR/far2/"
prints 'group far (4714)'
exits 0 onerun init --store "sqlite:$DIR/far2/"
prints 'shared with the group far (4714)'
rm -r "$DIR/home3/.local"

# getent that isn't there, or hangs: one line, and no other store.
mkdir "$DIR/empty"
cp "$program" "$DIR/empty/onerun"
hide() { mount --bind "$1" /usr/bin/getent; }
printf '#!/bin/sh\nexec sleep 60\n' >"$DIR/hangs"
printf '#!/bin/sh\nsleep 60\n' >"$DIR/child-hangs"
printf '#!/bin/sh\necho broken >&2\nexit 3\n' >"$DIR/broken"
: >"$DIR/none"
chmod 0755 "$DIR/hangs" "$DIR/child-hangs" "$DIR/broken"
chmod 0644 "$DIR/none"
for how in hangs child-hangs; do
	hide "$DIR/$how"
	began=$(date +%s)
	fails 69 as 4713 env HOME="$DIR" USER=root onerun run settle -- touch "$DIR/ran"
	says 'getent passwd 4713 gave no answer within 5s'
	test $(($(date +%s) - began)) -le 8 || die "it took $(($(date +%s) - began)) seconds"
	umount /usr/bin/getent
done
hide "$DIR/none"
fails 78 as 4713 env PATH="$DIR/empty" HOME="$DIR" USER=root onerun run settle -- touch "$DIR/ran"
says 'home directory of uid 4713.*not in /etc/passwd.*getent(1).*not installed.*--store'
fails 78 env PATH="$DIR/empty" onerun init --shared --group far
says 'group far.*getent(1).*not installed'
exits 0 env PATH="$DIR/empty" onerun init # root and the accounts in the files need none
exits 0 as 4711 env PATH="$DIR/empty:/usr/bin" onerun run settle -- true
umount /usr/bin/getent
hide "$DIR/broken"
fails 78 as 4713 onerun run settle -- touch "$DIR/ran"
says 'getent passwd 4713.*broken'
umount /usr/bin/getent
test ! -e "$DIR/ran" || die "it ran"
test ! -e "$DIR/.local" || die "HOME was believed"

# The store of the group is everybody's who is in it, in every environment, and for a unit
# that may not write there (ProtectSystem=strict) an error, not another store.
exits 0 onerun init --shared --group jobs
every /var/lib/onerun env
every /var/lib/onerun member 4711
every /var/lib/onerun member 4713
started /var/lib/onerun sudo -u tester "$program"
started /var/lib/onerun sudo -u other "$program"
every "$DIR/home/.local/state/onerun" as 4711
for how in bind, ""; do
	mount -o "remount,${how}ro" /var/lib
	fails 73 member 4711 onerun run settle -- touch "$DIR/ran"
	says '/var/lib/onerun.*read-only'
	fails 73 onerun run settle -- touch "$DIR/ran"
	mount -o "remount,${how}rw" /var/lib
done
test ! -e "$DIR/ran" || die "it ran"
