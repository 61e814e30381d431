# What `onerun init --shared` refuses to open to a group: nothing of it is changed.
root
etc
echo 'tester:x:4711:
jobs:x:4700:tester' >>/etc/group
tmpfs /var/lib 20m
mkdir -m 0700 "$DIR/store"
store=$DIR/store
export ONERUN_STORE="sqlite:$store"
exits 0 onerun run settle --date 2026-09-15 -- true
state() { find "$@" -printf '%m %u %g %p\n' | sort; }
before=$(state "$store")

# refused PATTERN: with 73, one line, and all as it was.
refused() {
	fails 73 onerun init --shared --group jobs
	says "$1"
	case $(state "$store" -not -name 'planted*') in
	"$before") ;;
	*) die "changed: $(state "$store")" ;;
	esac
}
echo secret >"$DIR/secret"
chmod 0600 "$DIR/secret"
lock=$(basename "$store"/locks/job-settle-*.lock .lock)

# A file that is not onerun's, be it by its name or its kind; links, of which none is followed.
for dir in "$store" "$store/locks"; do
	echo x >"$dir/planted"
	refused "$dir/planted: is not a file of onerun's"
	rm "$dir/planted"
	mkdir "$dir/planted"
	refused "$dir/planted: is not a file"
	rmdir "$dir/planted"
	ln -s "$DIR/secret" "$dir/planted"
	refused "$dir/planted: is a symbolic link"
	rm "$dir/planted"
done
for name in "$store/locks/$lock.excl" "$store/locks/.held.new-x" "$store/onerun.db-journal" "$store/onerun.db.new-x"; do
	for make in "ln -s $DIR/secret" "ln $DIR/secret" mkfifo mkdir; do
		$make "$name"
		fails 73 onerun init --shared --group jobs
		says "$name"
		test "$(stat -c '%a %g' "$DIR/secret")" = "600 0" || die "another file was opened: $(stat -c '%a %g' "$DIR/secret")"
		rm -d "$name"
		test "$(state "$store")" = "$before" || die "changed: $(state "$store")"
	done
done
mv "$store/locks" "$DIR/locks"
ln -s "$DIR/locks" "$store/locks"
fails 73 onerun init --shared --group jobs
says "$store/locks: is a symbolic link"
test "$(stat -c %a "$DIR/locks")" = 700 || die "the link was followed"
rm "$store/locks"
mv "$DIR/locks" "$store/locks"
ln -s "$store" "$DIR/link"
fails 73 onerun init --shared --group jobs --store "sqlite:$DIR/link"
says "$DIR/link: is a symbolic link"
test "$(state "$store")" = "$before" || die "changed: $(state "$store")"

# A file of onerun's that leads out of a lock directory of its own.
mkdir -m 0700 "$DIR/aside"
ln -s "$DIR/secret" "$DIR/aside/$lock.lock"
fails 73 onerun init --shared --group jobs --lock-dir "$DIR/aside"
test "$(state "$store")" = "$before" || die "changed: $(state "$store")"

# Somebody's home, the root, what is the system's: even when they are empty.
mkdir -m 0700 "$DIR/nobody"
echo "service:x:4715:4715::$DIR/nobody:/bin/sh" >>/etc/passwd
give "$DIR/home"
for dir in / "$DIR/home" "$DIR/nobody" /srv /var/lib /tmp /etc; do
	mode=$(stat -c '%a %g' "$dir")
	fails 73 onerun init --shared --group jobs --store "sqlite:$dir"
	says "store's directory.*opened to the group"
	fails 73 onerun init --shared --group jobs --store "sqlite:$dir/x.db"
	test "$(stat -c '%a %g' "$dir")" = "$mode" || die "$dir was opened"
	test ! -e "$dir/locks" -a ! -e "$dir/x.db" || die "$dir: something was made"
done
fails 73 member 4711 onerun init --shared --group jobs --store "sqlite:$DIR/home/"
fails 73 onerun init --shared --group jobs --store "sqlite:$DIR" # a directory with other things in it
says "is not a file of onerun's"
fails 73 onerun init --shared --group jobs --store "sqlite:$DIR/no/such/"

# An account that owns only a part: the part isn't changed either.
chown -R 4711 "$store"
chown 0 "$store/onerun.db"
before=$(state "$store")
fails 77 member 4711 onerun init --shared --group jobs
says "$store/onerun.db: it belongs to uid 0.*as root"
test "$(state "$store")" = "$before" || die "changed: $(state "$store")"
fails 77 as 4712 onerun init --shared --group 4700
test "$(state "$store")" = "$before" || die "changed: $(state "$store")"

# All its own, and in the group: it may. So may root, of a store that is somebody's.
chown 4711 "$store/onerun.db"
exits 0 member 4711 onerun init --shared --group jobs
allshared "$store"
exits 0 onerun run settle --date 2026-09-16 -- true
exits 0 member 4711 onerun init --shared --group jobs # root's files are right as they are
prints 'shared already'
mkdir -m 0700 "$DIR/theirs"
chown 4711 "$DIR/theirs"
exits 0 as 4711 onerun run settle --store "sqlite:$DIR/theirs" -- true
exits 0 onerun init --shared --group jobs --store "sqlite:$DIR/theirs"
allshared "$DIR/theirs"
exits 0 onerun init --shared --group jobs --store "sqlite:$DIR/new/"
prints 'is made, and shared'
allshared "$DIR/new"
exits 0 onerun init --shared --group jobs --store "sqlite:$DIR/new/" --lock-dir "$DIR/new-locks"
allshared "$DIR/new-locks"

# A file that is closed to the group is told by init, and put right by init --shared.
chmod 0600 "$store/onerun.db"
fails 77 onerun init
says "$store/onerun.db: its mode is 0600.*0660.*onerun init --shared"
fails 77 member 4712 onerun run settle --date 2026-09-17 -- touch ran
says "$store/onerun.db.*permission denied.*onerun init --shared"
exits 0 onerun init --shared --group jobs
prints 'shared now'
exits 0 member 4712 onerun run settle --date 2026-09-17 -- true
allshared "$store"

# What one of the group plants: no start follows it.
for suffix in "" -wal -shm; do
	mv "$store/onerun.db$suffix" "$DIR/kept" 2>/dev/null || :
	for make in "ln -s" ln; do
		$make "$DIR/secret" "$store/onerun.db$suffix"
		fails 73 onerun run settle --date 2026-09-18 -- touch ran
		test "$(cat "$DIR/secret")" = secret || die "it was written through $make"
		rm "$store/onerun.db$suffix"
	done
	mv "$DIR/kept" "$store/onerun.db$suffix" 2>/dev/null || :
done
test ! -e ran || die "it ran"
exits 0 onerun run settle --date 2026-09-18 -- true
allshared "$store"
