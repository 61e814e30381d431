# A text file that can't be written is one line of warning, the job's exit code is its own, and what stood there stays
# whole.
export ONERUN_STORE="sqlite:$DIR/store/onerun.db"
mkdir store
warns() {
	test "$(grep -c textfile_failed err)" = 1 || die "not one line: $(cat err)"
	grep textfile_failed err | grep -q "level=warn.*$1" || die "said: $(cat err), want $1"
}
file=prom/onerun_default_settle.prom

# A full disk, before the first file and after it.
tmpfs prom 64k
fill() { dd if=/dev/zero of=prom/filler bs=4k 2>/dev/null || :; dd if=/dev/zero of=prom/rest bs=1 2>/dev/null || :; }
fill
exits 0 onerun run settle --textfile-dir prom -- echo settled
prints settled
warns 'no space left on device; free some space'
test -z "$(ls -A prom | grep -v -e filler -e rest)" || die "left over: $(ls -A prom)"
rm prom/filler prom/rest
umask 077
exits 0 onerun run settle --textfile-dir prom -- true
test "$(stat -c %a $file)" = 644 || die "mode $(stat -c %a $file)"
cp $file good
fill
exits 3 onerun run settle --textfile-dir prom -- sh -c 'exit 3'
warns 'no space left on device'
cmp $file good
test -z "$(ls -A prom | grep -v -e filler -e rest -e '^onerun_default_settle.prom$')" || die "left over: $(ls -A prom)"
rm prom/filler prom/rest

# A read-only one.
mount -o remount,ro prom
exits 3 onerun run settle --textfile-dir prom -- sh -c 'exit 3'
warns 'read-only file system'
cmp $file good
mount -o remount,rw prom
exits 3 onerun run settle --textfile-dir prom -- sh -c 'exit 3'
grep -q '^onerun_job_last_failed{namespace="default",job="settle"} 1$' $file || die "$(cat $file)"

# A flock on the directory that somebody keeps doesn't keep a job for long.
flock prom sleep 1000 &
holder=$!
until flock -n prom true; [ $? = 1 ]; do sleep 0.01; done
exits 0 onerun run settle --textfile-dir prom -- true
test ! -s err || die "$(cat err)"
grep -q '^onerun_job_last_failed{namespace="default",job="settle"} 0$' $file || die "$(cat $file)"
pkill -P $holder
test "$(ls -A prom)" = onerun_default_settle.prom || die "left over: $(ls -A prom)"

# Another account's directory.
root
mkdir theirs
give theirs
exits 3 as 4711 onerun run settle --store "sqlite:$DIR/theirs/onerun.db" --textfile-dir "$DIR/prom" -- sh -c 'exit 3'
warns 'permission denied; let this account'
chmod 0700 prom
exits 0 as 4711 onerun run settle --store "sqlite:$DIR/theirs/onerun.db" --textfile-dir "$DIR/prom" -- true
warns 'permission denied; let this account'
chmod 0755 prom
test "$(ls -A prom)" = onerun_default_settle.prom || die "left over: $(ls -A prom)"
