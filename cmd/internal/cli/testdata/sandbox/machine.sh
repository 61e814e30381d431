# The machine of each symptom in docs/operating.md: nothing has run on it yet, and no process
# of another can be seen.
. "$SANDBOX/tools.sh"
root
{ echo 0 >/proc/self/loginuid; } 2>/dev/null || : # root itself, whoever has logged in
etc
people
disk
mount --bind /srv/lib /var/lib
mount --bind /srv/spool /var/spool

# ends_on_full_disk JOB DATE: the store is on a small disk of its own, /srv/small, which fills
# up while the job works: 76.
ends_on_full_disk() {
	tmpfs /srv/small 700k
	mkdir /srv/small/onerun
	mkdir -p /var/lib/onerun
	mount --bind /srv/small/onerun /var/lib/onerun
	chmod 0700 /var/lib/onerun
	onerun run "$1" --date "$2" --finish-wait 1s -- sh -c 'dd if=/dev/zero of=/srv/small/dump bs=4k; dd if=/dev/zero of=/srv/small/rest bs=1; true'
}

# is_killed JOB DATE FLAG...: its wrapper is, by the job itself once that is noted, and nothing is left.
is_killed() {
	job=$1 date=$2
	shift 2
	onerun run "$job" --date "$date" "$@" -- sh -c 'until grep -q "\"state\":\"running\"" /var/lib/onerun/locks/job-$ONERUN_JOB-*.lock; do :; done; kill -9 $PPID' || :
	waitfor sh -c "onerun stale | grep -q ' dead .*is empty'"
}
