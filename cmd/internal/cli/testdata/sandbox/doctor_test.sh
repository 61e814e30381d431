# What makes a machine unsafe, each provoked for real and seen by onerun doctor; and a
# machine on which nothing is.
etc
disk
export PATH
mount --bind /srv/lib /var/lib
mount --bind /srv/spool /var/spool
give "$DIR/home"
db=/var/lib/onerun/onerun.db

# Nothing there yet: that is said, and nothing is made.
doctor 0
finds unknown store 'there is no store yet.*/var/lib/onerun/onerun.db'
test ! -e /var/lib/onerun || die "$(ls -laR /var/lib/onerun)"
exits 0 as 4711 onerun doctor
finds unknown store "there is no store yet.*$DIR/home/.local/state/onerun/onerun.db"
test ! -e "$DIR/home/.local" || die "$(ls -laR "$DIR/home")"

# A healthy store: exit 0, with nothing above ok, but for what this machine itself is.
exits 0 onerun run settle --date 2026-09-15 -- true
exits 0 onerun pause settle --reason why
exits 0 onerun resume settle
healthy

# A clock that stands before what the ledger knows.
exits 0 onerun run clocked -- true
sqlite3 "$db" "UPDATE onerun_run SET started_at = started_at + 86400000000, finished_at = finished_at + 86400000000 WHERE job = 'clocked'"
doctor 1
finds danger clock 'behind'
sqlite3 "$db" "DELETE FROM onerun_run WHERE job = 'clocked'"
healthy

# Two programs of one name.
mkdir "$DIR/old"
cp "$(command -v onerun)" "$DIR/old/onerun"
echo >>"$DIR/old/onerun"
PATH=$DIR/old:$PATH doctor 0
finds warning program "another program than"
PATH=$DIR/old:$PATH doctor 1 --strict
rm "$DIR/old/onerun"

# A variable of this shell chose the store: cron hasn't got it.
mkdir -m 0700 /srv/other
export ONERUN_STORE=sqlite:/srv/other
exits 0 onerun run rates -- true
doctor 0
finds warning store-choice 'cron, systemd'
finds ok other-stores ''
exits 0 alone onerun doctor --store sqlite:/srv/other
finds ok store-choice ''
echo '0 1 * * * root onerun run rates -- true' >>/etc/crontab
doctor 1
finds danger store-choice '/etc/crontab:1 .account root, run rates. names none'
finds danger other-stores "$db (the machine's, /etc/crontab:1) has the same jobs as this store: rates"
printf 'ONERUN_STORE = sqlite:/srv/other\n0 1 * * * root onerun run rates -- true\n' >/etc/crontab
doctor 0
finds warning store-choice ''
rm /etc/crontab

# A service of systemd that names none, one that names it, and a drop-in that has the last word.
mkdir -p /etc/systemd/system/rates.service.d
printf '[Unit]\n[Service]\nType=oneshot\nExecStart=-/usr/bin/onerun run \\\n  rates -- true\n' >/etc/systemd/system/rates.service
doctor 1
finds danger store-choice '/etc/systemd/system/rates.service:5 .account root, run rates. names none'
finds danger other-stores "$db (the machine's, /etc/systemd/system/rates.service:5) has the same jobs as this store: rates"
printf '[Service]\nEnvironment="ONERUN_STORE=sqlite:/srv/other" A=b\n' >/etc/systemd/system/rates.service.d/store.conf
doctor 0
finds warning store-choice ''
printf '[Service]\nEnvironment=\nUser=tester\nExecStart=\nExecStart=onerun run rates --store sqlite:/srv/third -- true\n' >/etc/systemd/system/rates.service.d/zz.conf
mkdir -m 0755 /srv/third
doctor 1
finds danger other-stores '/srv/third/onerun.db (/etc/systemd/system/rates.service.d/zz.conf:5) has the same jobs as this store: rates'
rm -r /etc/systemd /srv/third
unset ONERUN_STORE
healthy

# Crontabs whose stores differ, of the spool and of cron.d.
mkdir /etc/cron.d
echo '0 1 * * * root onerun run settle --date today --tz UTC --store sqlite:/srv/third -- true' >/etc/cron.d/jobs
doctor 1
finds danger other-stores '/srv/third/onerun.db\|/srv/third (/etc/cron.d/jobs:1) has the same jobs as this store: settle'
doctor 1 settle --checklist
prints '^can it start twice? yes: it is in another store as well: /srv/third'
doctor 0 clocked
rm -r /etc/cron.d
echo '0 1 * * * onerun run settle --date today --tz UTC -- true' >/var/spool/cron/crontabs/tester
doctor 1 settle
finds danger other-stores "$DIR/home/.local/state/onerun/onerun.db (/var/spool/cron/crontabs/tester:1) has the same jobs as this store: settle"
rm /var/spool/cron/crontabs/tester
healthy

# A job without a key that two lines start.
exits 0 onerun run fetch -- true
doctor 0 fetch
finds ok history 'last run fetch, SUCCEEDED'
exits "$machine" alone onerun doctor fetch --checklist
prints '^can it start twice? no: not beside itself'
echo '0 1 * * * root onerun run fetch -- true
0 2 * * * root onerun run fetch -- true' >/etc/crontab
doctor 1 fetch --checklist
prints '^can it start twice? yes: it has no key, and 2 lines of crontabs and services start it, of root'
rm /etc/crontab

# One with and without a key, and one under another's lock.
exits 0 onerun run fetch --partition one --lock pair -- true
doctor 0
finds warning unkeyed-jobs 'fetch has runs with a key and runs without'
exits 0 onerun run sweep --lock pair -- true
doctor 0
finds warning unkeyed-jobs 'sweep has no key, and runs under the same lock as fetch'
doctor 0 sweep
finds warning unkeyed-jobs 'sweep has no key, and runs under the same lock as fetch'
doctor 0 settle
finds ok unkeyed-jobs ''
sqlite3 "$db" "DELETE FROM onerun_run WHERE job IN ('fetch', 'sweep')"
healthy

# Two accounts with a store each: nothing as long as their jobs differ.
exits 0 as 4711 onerun run fetch -- true
healthy
exits 0 as 4711 onerun run settle --date 2026-09-15 -- true
doctor 1
finds danger other-stores 'the home of tester.*has the same jobs as this store: settle'
doctor 1 settle --checklist
prints 'can it start twice? yes.*the home of tester'
# Asked about a job that only the other one knows, this may be the wrong store.
exits 1 alone onerun doctor fetch
finds danger other-stores 'the home of tester.*fetch'
finds unknown history 'fetch has no runs in this store'
sqlite3 "$DIR/home/.local/state/onerun/onerun.db" "DELETE FROM onerun_run WHERE job = 'settle'"
healthy
chmod 2770 /var/lib/onerun /var/lib/onerun/locks
chmod 0660 /var/lib/onerun/onerun.db* /var/lib/onerun/locks/* /var/lib/onerun/locks/.held
doctor 0
finds warning other-stores 'the home of tester.*beside the shared one'
finds ok permissions 'shared by group 0'
exits 0 onerun run fetch -- true
doctor 1
finds warning unkeyed-jobs 'fetch has no key, on a store that several accounts share'
finds danger other-stores 'the same jobs as this store: fetch'
chmod 00700 /var/lib/onerun /var/lib/onerun/locks
chmod 0600 /var/lib/onerun/onerun.db* /var/lib/onerun/locks/* /var/lib/onerun/locks/.held
rm -r "$DIR/home/.local"
healthy

# Who may write there.
chmod 0777 /var/lib/onerun
doctor 1
finds danger permissions 'mode 0777: every account can remove and replace'
chmod 0700 /var/lib/onerun
chmod 0644 "$db"
doctor 0
finds warning permissions 'labels and errors may tell'
chmod 0600 "$db"
if really_root; then
	chown 4711 /var/lib/onerun/locks/.held
	doctor 1
	finds danger owners 'belongs to uid 4711'
	chown 0 /var/lib/onerun/locks/.held
	chmod 0755 /var/lib/onerun
	fails 77 as 4711 onerun doctor --store "sqlite:$db"
	chmod 0700 /var/lib/onerun
fi
healthy

# What is running: a job in the directory of its locks, and the same job on another store.
mkdir -m 0700 /srv/work
mkfifo /srv/go
(cd /srv/work && exec onerun run clean --lock-dir . --timeout 1m -- sh -c 'echo >/srv/go; read end </srv/go') >/dev/null 2>&1 &
read -r ready </srv/go
onerun doctor >"$DIR/out" 2>"$DIR/err" && die "$(cat "$DIR/out")"
finds danger lock-directory '/srv/work is the working directory of a job .*clean'
echo >/srv/go
wait $!
onerun run settle --date 2026-09-15 --store sqlite:/srv/other --timeout 1m -- sh -c 'echo >/srv/go; read end </srv/go' >/dev/null 2>&1 &
read -r ready </srv/go
sqlite3 /srv/other/onerun.db "UPDATE onerun_run SET job = 'renamed' WHERE job = 'settle'"
onerun doctor >"$DIR/out" 2>"$DIR/err" && die "$(cat "$DIR/out")"
finds danger other-stores '/srv/other/onerun.db (process [0-9].*) has the same jobs as this store: settle'
sqlite3 /srv/other/onerun.db "UPDATE onerun_run SET job = 'settle' WHERE job = 'renamed'"
echo >/srv/go
wait $!
healthy

# Little room: of bytes, of inodes.
tmpfs "$DIR/small" 2m
exits 0 onerun run settle --store "sqlite:$DIR/small" -- true
exits 1 alone onerun doctor --store "sqlite:$DIR/small"
finds danger disk-room 'small: .* free'
finds danger file-system 'in memory (tmpfs)'
finds danger temporary-place 'below /tmp'
mkdir "$DIR/few"
mount -t tmpfs -o size=64m,nr_inodes=10000,mode=0700 onerun-test "$DIR/few"
exits 0 onerun run settle --store "sqlite:$DIR/few" -- true
exits 1 alone onerun doctor --store "sqlite:$DIR/few"
finds ok disk-room 'few: .* of 10000 inodes'
mkdir "$DIR/few/many"
(cd "$DIR/few/many" && seq 9840 | xargs touch)
exits 1 alone onerun doctor --store "sqlite:$DIR/few"
finds warning disk-room 'few: .* of 10000 inodes'
(cd "$DIR/few/many" && seq 9841 9900 | xargs touch)
exits 1 alone onerun doctor --store "sqlite:$DIR/few"
finds danger disk-room 'few: .* of 10000 inodes'

# A file system that is read-only.
mount -o remount,bind,ro "$DIR/few"
exits 1 alone onerun doctor --store "sqlite:$DIR/few"
finds danger file-system 'read-only'

# An end that waits, since the disk was full.
tmpfs "$DIR/full" 700k
export ONERUN_STORE="sqlite:$DIR/full"
exits 0 onerun run pay -- true
exits 76 onerun run pay --finish-wait 1s -c 'dd if=/dev/zero of=full/filler bs=4k 2>/dev/null; dd if=/dev/zero of=full/rest bs=1 2>/dev/null; true'
rm "$DIR/full/filler" "$DIR/full/rest"
doctor 1
finds danger waiting-ends 'the end of pay, attempt 1 .*SUCCEEDED.*onerun flush'
doctor 1 other # whose end it isn't; the store is in memory
finds ok waiting-ends 'nothing of other'
exits 0 onerun run pay -- true
doctor 1
finds ok waiting-ends ''
unset ONERUN_STORE

# Above the store, a repository; and a tool's own directory.
mkdir -p -m 0700 /srv/app/.git /srv/app/node_modules/store
exits 0 onerun run build --store sqlite:/srv/app/node_modules/store -- true
exits 0 alone onerun doctor --store sqlite:/srv/app/node_modules/store
finds warning surroundings 'node_modules'
rm -r /srv/app/node_modules
mkdir -m 0700 /srv/app/store
exits 0 onerun run build --store sqlite:/srv/app/store -- true
exits 0 alone onerun doctor --store sqlite:/srv/app/store
finds warning surroundings 'repository (/srv/app/.git)'

# The lock directory elsewhere: in memory, an end that waits would be lost.
tmpfs "$DIR/memory" 4m
exits 0 onerun run memory --lock-dir "$DIR/memory" -- true
exits 1 alone onerun doctor --lock-dir "$DIR/memory"
finds danger temporary-place 'the lock directory'
finds warning file-system 'the lock directory .* is in memory'
healthy
