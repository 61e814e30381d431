# An account's own default store excludes no other account, and the first start on it says
# so: once, and only that one.
root
etc
tmpfs /var/lib 10m
give "$DIR/home"
warns() {
	test "$(grep -c event=private_store "$DIR/err")" = 1 || die "$* warns: $(cat "$DIR/err")"
	test "$(wc -l <"$DIR/err")" = 1 || die "$(cat "$DIR/err")"
}
quiet() { test ! -s "$DIR/err" || die "$(cat "$DIR/err")"; }

# Looking makes the store and doesn't warn; the first start after it does, and no other.
for look in status history locks stale "explain settle"; do
	exits 0 as 4711 onerun $look
	quiet
done
exits 0 as 4711 onerun run settle --log-level error -- true # nobody would see it
quiet
exits 0 as 4711 onerun run settle -- true
warns run
says 'level=warn event=private_store .*store=sqlite:.*/home/.local/state/onerun/onerun.db'
says 'private to the account tester.*not excluded.*onerun init --shared --group G'
exits 0 as 4711 onerun run settle -- true
quiet
exits 0 as 4711 onerun lock settle -- true
quiet

# onerun lock is a start, and so is one that is refused. In JSON and in a file it is the same line.
rm -rf "$DIR/home/.local"
exits 0 as 4711 onerun lock settle --log-format json -- true
says '"level":"warn","event":"private_store"'
rm -rf "$DIR/home/.local"
mkdir -m 0777 "$DIR/log"
exits 0 as 4711 onerun run settle --log-file "$DIR/log/log" -- true
quiet
grep -q private_store "$DIR/log/log" || die "$(cat "$DIR/log/log")"

# Many first starts at once: one line.
rm -rf "$DIR/home/.local"
for i in 1 2 3 4 5 6 7 8; do
	as 4711 onerun run at-once-$i -- true 2>>"$DIR/errors" &
done
wait
test "$(grep -c private_store "$DIR/errors")" = 1 || die "$(cat "$DIR/errors")"

# onerun init says it itself.
rm -rf "$DIR/home/.local"
exits 0 as 4711 onerun init
prints "store sqlite:$DIR/home/.local/state/onerun/onerun.db is made: private to this account (tester)"
prints 'onerun init --shared --group G'
test "$(stat -c %a "$DIR/home/.local/state/onerun" "$DIR/home/.local/state/onerun/locks" "$DIR/home/.local/state/onerun/onerun.db" | tr '\n' ' ')" = "700 700 600 " || die "$(ls -laR "$DIR/home")"
exits 0 as 4711 onerun init
prints 'is there already, and in order: private to this account (tester)'
exits 0 as 4711 onerun run settle -- true
quiet

# Neither root's nor a store that is named.
exits 0 onerun run settle -- true
quiet
test ! -e /var/lib/onerun/.started || die "a start of root's was noted"
mkdir -m 0700 "$DIR/named"
give "$DIR/named"
exits 0 as 4711 onerun run settle --store "sqlite:$DIR/named" -- true
quiet
exits 0 as 4711 env ONERUN_STORE="sqlite:$DIR/home/.local/state/onerun" onerun run settle -- true
quiet

# onerun init makes a directory that is named, but not one above it, and finds what is no store.
exits 0 as 4711 onerun init --store "sqlite:$DIR/named/batch/"
prints "sqlite:$DIR/named/batch/onerun.db is made"
fails 73 as 4711 onerun init --store "sqlite:$DIR/named/no/such/"
test ! -e "$DIR/named/no" || die "made"
echo 'this is no database, and longer than its header would be: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' >"$DIR/named/text"
give "$DIR/named/text"
fails 74 as 4711 onerun init --store "sqlite:$DIR/named/text"
sqlite3 "$DIR/named/other.db" 'CREATE TABLE t(x)'
give "$DIR/named/other.db"
fails 78 as 4711 onerun init --store "sqlite:$DIR/named/other.db"
fails 77 as 4711 onerun init --store sqlite:/var/lib/onerun
fails 64 onerun init --store redis
