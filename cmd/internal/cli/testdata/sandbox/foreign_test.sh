# One file in the lock directory that is none of onerun's, or closed to this account, hides
# nothing else: the listings show the rest, and what it is.
mkdir -m 0700 store
give store
export ONERUN_STORE="sqlite:$DIR/store"
trap 'touch "$DIR/store/go"' EXIT
as 4711 onerun run busy -- sh -c "touch $DIR/store/up; while ! test -e $DIR/store/go; do sleep 0.02; done" &
busy=$!
waitfor test -e store/up
exits 0 as 4711 onerun run settle -- true
lock=$(echo store/locks/job-settle-*.lock)
rm "$lock"
for make in "ln -s /etc/passwd" "ln -s /nonexistent" mkfifo mkdir "mkdir -m 0000" "install -m 0000 /dev/null"; do
	for path in "$lock" "${lock%.lock}.excl" store/locks/README store/locks/x.lock; do
		$make "$path"
		give -h "$path"
		exits 0 as 4711 onerun locks
		prints '^job/busy '
		case $path in
		*/job-*) prints "unknown  *$DIR/$path" ;;
		*) test "$(wc -l <"$DIR/out")" = 2 || die "$(cat "$DIR/out")" ;;
		esac
		exits 0 as 4711 onerun locks --json
		prints '"lock": "job/busy"'
		exits 0 as 4711 onerun status
		prints '^busy '
		exits 0 as 4711 onerun history
		case $path in
		*/job-*) # a start is an error, never a skip
			code=0
			as 4711 onerun run settle -- touch store/ran 2>"$DIR/err" || code=$?
			test $code = 73 -o $code = 77 || die "$make $path: exit status $code: $(cat "$DIR/err")"
			says "$DIR/$path"
			;;
		esac
		rm -d "$path"
	done
done

# In the place of the lock file of a run that goes on.
lock=$(echo store/locks/job-busy-*.lock)
mv "$lock" "$DIR/kept"
for make in "ln -s /etc/passwd" mkfifo mkdir "install -m 0000 /dev/null"; do
	$make "$lock"
	give -h "$lock"
	exits 0 as 4711 onerun locks
	prints "^job/busy .*$DIR/$lock"
	exits 0 as 4711 onerun status
	prints '^busy '
	exits 0 as 4711 onerun stale
	rm -d "$lock"
done
mv "$DIR/kept" "$lock"

# A lock directory that others can write in, or that is a third account's, is refused as ever.
chmod 0777 store/locks
fails 77 as 4711 onerun locks
says 'every account can write in it'
chmod 0770 store/locks
fails 77 as 4711 onerun locks
chmod 0700 store/locks
fails 77 as 4711 onerun locks --store "sqlite:$(foreign)/x.db"
touch store/go
wait $busy || die "the job failed"
test ! -e store/ran || die "it ran"
exits 0 as 4711 onerun run settle -- true
