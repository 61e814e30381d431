# Where the embedded store is, when none is named: never where HOME or XDG_* point, because
# cron, sudo and systemd change them, and two stores exclude nobody.
etc
tmpfs /var/lib 10m
give "$DIR/home"
export XDG_STATE_HOME="$DIR/elsewhere" XDG_DATA_HOME="$DIR/elsewhere" XDG_CONFIG_HOME="$DIR/elsewhere"

# root's is /var/lib/onerun, private to it.
exits 0 onerun run settle -- true
test "$(stat -c %a /var/lib/onerun /var/lib/onerun/onerun.db /var/lib/onerun/locks | tr '\n' ' ')" = "700 600 700 " || die "$(ls -laR /var/lib/onerun)"
HOME=$DIR/other exits 0 onerun history --store sqlite:/var/lib/onerun
prints settle

# An ordinary account's, which may not write there, is under its home in the user database.
chmod 0500 /var/lib/onerun
for home in "$DIR/home" /nonexistent /root ""; do
	exits 0 as 4711 env HOME="$home" onerun run "settle" -- true
done
exits 0 as 4711 env -u HOME onerun history --json
test "$(grep -c '"run_id"' "$DIR/out")" = 4 || die "$(cat "$DIR/out")"
test -f "$DIR/home/.local/state/onerun/onerun.db" || die "$(ls -laR "$DIR/home")"
test "$(stat -c %a "$DIR/home/.local/state/onerun")" = 700 || die "$(ls -la "$DIR/home/.local/state")"
test ! -e "$DIR/elsewhere" || die "$(ls -laR "$DIR/elsewhere")"

# A start of the same account with another HOME is excluded by the first.
exits 75 as 4711 env HOME=/one onerun run settle --log-file /dev/null -- env HOME=/two onerun --store "sqlite:$DIR/home/.local/state/onerun" run settle -E 75 -- touch "$DIR/ran"
test ! -e "$DIR/ran" || die "two ran"

# /var/lib/onerun is for anyone who may write there.
rm -r /var/lib/onerun
mkdir -m 0700 /var/lib/onerun
give /var/lib/onerun
exits 0 as 4711 onerun run shared -- true
test -f /var/lib/onerun/onerun.db || die "$(ls -laR /var/lib/onerun)"

# An account that the user database doesn't know has no home, and is told so.
rm -r /var/lib/onerun
fails 78 as 4999 onerun run settle -- touch "$DIR/ran"
says 'uid 4999.*--store'
exits 0 as 4711 onerun history
prints settle

# So is one whose home can't be written.
chmod 0500 "$DIR/home/.local/state" 
mv "$DIR/home/.local/state/onerun" "$DIR/kept"
fails 77 as 4711 onerun run settle -- touch "$DIR/ran"
says '\.local/state/onerun.*permission denied'
chmod 0700 "$DIR/home/.local/state"
mv "$DIR/kept" "$DIR/home/.local/state/onerun"
exits 0 as 4711 onerun run settle -- true

# The configuration file of the machine is everybody's, and comes before the embedded store.
# One that can't be read, or is wrong, is an error: nothing goes on as if it weren't there.
mkdir /etc/onerun "$DIR/named"
echo "store: sqlite:$DIR/named/" >/etc/onerun/onerun.yaml
exits 0 onerun run from-file -- true
test -f "$DIR/named/onerun.db" || die "$(ls -la "$DIR/named")"
exits 0 onerun history
prints from-file
chmod 0600 /etc/onerun/onerun.yaml
fails 77 as 4711 onerun run settle -- touch "$DIR/ran"
says '/etc/onerun/onerun.yaml.*permission denied'
echo 'store: sqlite:/elsewhere/' >/etc/onerun/onerun.yaml
fails 73 onerun run settle -- touch "$DIR/ran"
says '/elsewhere'
echo 'stor: sqlite:/elsewhere/' >/etc/onerun/onerun.yaml
fails 78 onerun run settle --store sqlite:"$DIR/named" -- touch "$DIR/ran"
says '/etc/onerun/onerun.yaml:1:1: unknown key .*did you mean "store"'
rm /etc/onerun/onerun.yaml
exits 0 as 4711 onerun history
test ! -e "$DIR/ran" || die "something ran"
