# A week of one host, 14 to 20 September 2026. root's crontab and an account's start the same
# three jobs at the same minutes, on one store. Much goes wrong, as it does; in the end every
# date is accounted for, and none was executed that the story doesn't name. (B21, B38, B39, B41)
root
etc
disk
. "$SANDBOX/week.sh"
trap power_off EXIT # what was started in the background ends with the script
export PATH

# The machine: two accounts and a person, a configuration file, and two crontabs.
people
book
mkdir /etc/onerun
cat >/etc/onerun/onerun.yaml <<'END'
timezone: Asia/Seoul
defaults: {timeout: 1m, finish_wait: 1s}
jobs:
  daily-settlement: {date: yesterday, command: [/srv/jobs/night], on_crash: manual, rerun: two-person}
  report: {date: yesterday, command: [/srv/jobs/night]}
  fetch-rates: {command: [/srv/jobs/rates]}
  month-end: {command: [/srv/jobs/night]}
END
mount --bind /srv/lib /var/lib
mount --bind /srv/spool /var/spool
cat >/etc/crontab <<'END'
0 1 * * * root onerun run daily-settlement
0 3 * * * root onerun run report
*/5 * * * * root onerun run fetch-rates
END
sed 's/ root / /' /etc/crontab >/var/spool/cron/crontabs/tester

# The store is on a disk of its own, which will be too small. An older onerun made it.
tmpfs /srv/small 1200k
mkdir /srv/small/onerun /var/lib/onerun
mount --bind /srv/small/onerun /var/lib/onerun
db=/var/lib/onerun/onerun.db
exits 0 onerun init --shared --group jobs
rm $db*
umask 007
sqlite3 $db 'PRAGMA journal_mode = WAL' '.read '"$SCHEMA"/001_schema.sql "PRAGMA user_version = $((0x31720001)); PRAGMA application_id = $((0x3172756e))" \
	".read $SANDBOX/week_v1.sql" >"$DIR/out"
umask 022
chmod 0660 $db
allshared /var/lib/onerun

### Monday. The old program settled Saturday and Sunday; its last report failed.
for date in 2026-09-12 2026-09-13; do
	due daily-settlement $date SUCCEEDED
	due report $date SUCCEEDED
	printf '%s\n' "daily-settlement $date 1" "report $date 1" >>/srv/book/witness
done
# In the evening the archive begins, and goes on over night. The old program starts it: there
# is none here, so the new one does, and what it added to the store is taken away under it.
due archive 2026-W37 SUCCEEDED
night archive 2026-W37 "$hold"
columns() { sqlite3 -readonly "$1" "SELECT m.name, c.name FROM sqlite_schema m, pragma_$2_info(m.name) c ORDER BY 1, 2"; }
version1() { columns $db table && columns $db index; }
version1 >"$DIR/version1"
person kim onerun run archive --partition 2026-W37 -- /srv/jobs/night &
archive=$!
up
sqlite3 $db <"$SANDBOX/week_down.sql"
version1 | cmp - "$DIR/version1" || die "that is not version 1"

### Tuesday, 1 o'clock. Both crontabs start the new program, which brings the store up.
due daily-settlement 2026-09-14 SUCCEEDED
cron 2026-09-15T01:00
nomail
codes daily-settlement 0 0
test "$(sqlite3 -readonly $db 'PRAGMA user_version')" = $((0x31720005)) || die "it was not upgraded"
exits 0 onerun history --json
prints '"key": "report:2026-09-13"'
# What runs meanwhile is still known to run, and ends as usual.
exits 75 person tester onerun run archive --partition 2026-W37 -E 75 --log-level info -- /srv/jobs/night
says 'reason=running'
morning
wait $archive || die "the archive failed"
exits 75 person tester onerun run archive --partition 2026-W37 -E 75 --log-level info -- /srv/jobs/night
says 'reason=succeeded'
# 3 o'clock: the report. The old one's date is blocked, and not run by anybody.
due report 2026-09-14 SUCCEEDED
cron 2026-09-15T03:00
nomail
exits 79 person tester onerun run report --date 2026-09-13
# Morning: two people see the failure, and both put it right at once.
atonce tester kim onerun resolve report:2026-09-13 --as succeeded --reason 'sent by hand on Monday'
says 'report:2026-09-13 is SUCCEEDED\|changed'
# The summer's months are done at last. Somebody kills it in July, by mistake.
for month in 2026-06 2026-07 2026-08; do due month-end $month SUCCEEDED; done
night month-end 2026-07 "$hold"
onerun backfill month-end --period month --from 2026-06-01 --to 2026-08-31 2>"$DIR/err" &
backfill=$!
up
kill -9 "$wrapper"
waitfor ended "$job"
! wait $backfill || die "the backfill is done"
exits 79 onerun backfill month-end --period month --from 2026-06-01 --to 2026-08-31
exits 0 onerun rerun month-end:2026-07 --reason 'nothing of July was booked'
once_more month-end 2026-07 'killed by mistake'
exits 0 onerun backfill month-end --period month --from 2026-06-01 --to 2026-08-31

### Wednesday, 1 o'clock: wrapper and job are killed in the middle of the settlement.
due daily-settlement 2026-09-15 SUCCEEDED
night daily-settlement 2026-09-15 "$hold"
cron 2026-09-16T01:00 &
crons=$!
up
everything "$wrapper" "$job"
waitfor ended "$job"
wait $crons
# It is about money, so it waits for a person, whoever starts it.
for who in tester kim; do
	exits 79 person $who onerun run daily-settlement --date 2026-09-15
	exits 0 person $who onerun explain daily-settlement:2026-09-15
	prints 'rule *1 .*stale'
done
exits 1 onerun stale --exit-code
prints 'daily-settlement:2026-09-15 .* dead '
# kim looks, and finds nothing booked. A rerun takes two people: kim can't do it alone, and of
# the two who agree at once one is the second.
exits 0 person kim onerun resolve daily-settlement:2026-09-15 --as failed --reason 'looked: nothing is booked'
fails 1 person kim onerun rerun daily-settlement:2026-09-15 --reason 'I want it'
says 'two people'
exits 0 person kim onerun rerun daily-settlement:2026-09-15 --request --reason 'nothing is booked'
fails 1 person kim onerun approve daily-settlement:2026-09-15 --reason 'I agree with myself'
exits 79 onerun run daily-settlement --date 2026-09-15
person tester onerun approve daily-settlement:2026-09-15 --reason 'looked as well' >"$DIR/out" 2>&1 &
second=$!
third=0
onerun approve daily-settlement:2026-09-15 --reason 'looked as well' >"$DIR/out2" 2>&1 || third=$?
code=0
wait $second || code=$?
test $code$third = 01 -o $code$third = 10 || die "two approvals: $code $third: $(cat "$DIR/out" "$DIR/out2")"
once_more daily-settlement 2026-09-15 'killed in the night; kim and another'
atonce_starts() { # of all who want it now, one executes it
	for who in tester kim tester kim; do
		person $who onerun run daily-settlement --date "$1" 2>>"$DIR/mail" &
	done
	wait
}
atonce_starts 2026-09-15
# 3 o'clock: the disk is full when the report has done its work. (The journal has room left
# from the day, which is taken away, else the end would still fit in there.)
sqlite3 $db 'PRAGMA wal_checkpoint(TRUNCATE)' >"$DIR/out"
due report 2026-09-15 SUCCEEDED
night report 2026-09-15 'dd if=/dev/zero of=/srv/small/dump bs=4k 2>/dev/null; dd if=/dev/zero of=/srv/small/dump2 bs=1 2>/dev/null; true'
touch /srv/small/dump /srv/small/dump2
chmod 0666 /srv/small/dump*
cron 2026-09-16T03:00
grep -q 'not recorded yet.*free some space' "$DIR/mail" || die "$(cat "$DIR/mail")"
grep -q ' 76 onerun run report' "$DIR/codes" || die "$(cat "$DIR/codes")"
cron 2026-09-16T03:05
codes fetch-rates 74 74
rm /srv/small/dump*
cron 2026-09-16T03:10
codes fetch-rates 0 0
grep -q 'event=late_outcome .*report:2026-09-15' "$DIR/mail" || die "$(cat "$DIR/mail")"
exits 0 onerun flush
prints 'nothing waits'
exits 0 person tester onerun run report --date 2026-09-15

### Thursday, 1 o'clock: a backup holds the database while the settlement ends, and its
### wrapper is killed before it could record that.
due daily-settlement 2026-09-16 SUCCEEDED
night daily-settlement 2026-09-16 "$hold"
cron 2026-09-17T01:00 &
crons=$!
up
mkfifo "$DIR/sql"
sqlite3 $db <"$DIR/sql" >"$DIR/locked" &
backup=$!
exec 7>"$DIR/sql"
printf '%s\n' 'BEGIN IMMEDIATE;' "SELECT 'locked';" >&7
waitfor grep -q locked "$DIR/locked"
morning
waitfor grep -q '"state":"ended"' /var/lib/onerun/locks/job-daily-settlement-*.lock
kill -9 "$wrapper"
# A start that waits for the store is killed too: it has claimed nothing.
member 4711 sh -c 'echo $$ >/srv/book/waits; exec onerun run fetch-rates' 2>/dev/null &
waitfor test -s /srv/book/waits
waitfor grep -q onerun "/proc/$(cat /srv/book/waits)/comm"
kill -9 "$(cat /srv/book/waits)"
exec 7>&-
wait $backup $crons
settled() { onerun show daily-settlement:2026-09-16 --json >"$DIR/settled" && ! grep -q '"status": "RUNNING"' "$DIR/settled"; }
onerun flush >"$DIR/out"
waitfor settled # by this, or by the guard
exits 0 person tester onerun run daily-settlement --date 2026-09-16
exits 0 onerun show daily-settlement:2026-09-16 --json
prints '"status": "SUCCEEDED"'
prints '"attempt": 1,'
# 3 o'clock: the report's wrapper and its guard are killed; what they started works on.
due report 2026-09-16 SUCCEEDED
night report 2026-09-16 "$leave"
cron 2026-09-17T03:00 &
crons=$!
up
both "$wrapper"
wait $crons
for _ in $(seq 20); do exits 75 person tester onerun run report --date 2026-09-16 -E 75; done
exits 0 onerun show report:2026-09-16 --json
test "$(grep -c '"reason": "running"' "$DIR/out")" = 1 || die "each skip has a row of its own: $(cat "$DIR/out")"
fails 1 onerun resolve report:2026-09-16 --as failed --reason 'looks dead'
morning
waitfor ended "$job"
exits 79 onerun run report --date 2026-09-16
atonce tester kim onerun rerun report:2026-09-16 --reason 'half of it is there'
once_more report 2026-09-16 'its wrapper was killed'
exits 0 onerun run report --date 2026-09-16
exits 0 onerun run report --date 2026-09-16
# Noon: to a larger disk, while nothing starts.
for job in daily-settlement report fetch-rates; do exits 0 onerun pause $job --reason 'the disk is too small'; done
cron 2026-09-17T12:00
nomail
umount /var/lib/onerun
cp -a /srv/small/onerun/. /var/lib/onerun/
chown :jobs /var/lib/onerun
chmod 2770 /var/lib/onerun
umount /srv/small
for job in daily-settlement report fetch-rates; do exits 0 onerun resume $job; done
exits 0 onerun init
prints 'in order: shared with the group jobs'
# Afternoon: the machine has too little memory, and the kernel shoots at whatever moment.
for moment in 1 2 3 4 6 8 12; do
	due probe p$moment SUCCEEDED
	timeout -s KILL 0.00$moment onerun run probe --partition p$moment -- /srv/jobs/night 2>>"$DIR/mail" || :
	code=0
	person kim onerun run probe --partition p$moment -E 75 -- /srv/jobs/night 2>"$DIR/err" || code=$?
	case $code in
	79) # it was started, or may have been: a person looks, and says once more
		if grep -q reason=stale "$DIR/err"; then # killed while it started: only root can see that nothing is left
			fails 1 person kim onerun resolve probe:p$moment --as failed --reason 'it looks dead'
			says "another account can't recognise"
			exits 79 onerun run probe --partition p$moment -- /srv/jobs/night
		fi
		exits 0 person kim onerun rerun probe:p$moment --reason 'it may be done again'
		once_more probe p$moment 'killed'
		exits 0 person tester onerun run probe --partition p$moment -- /srv/jobs/night
		;;
	0 | 75) ;;
	*) die "probe:p$moment: $code: $(cat "$DIR/err")" ;;
	esac
done

### Friday. Somebody has edited the configuration file: nothing runs on half of it.
due daily-settlement 2026-09-17 SUCCEEDED
cp /etc/onerun/onerun.yaml "$DIR/good.yaml"
sed -i 's/on_crash:/on-crash:/' /etc/onerun/onerun.yaml
cron 2026-09-18T01:00
codes daily-settlement 78 78
grep -q 'onerun.yaml:4:.*did you mean "on_crash"' "$DIR/mail" || die "$(cat "$DIR/mail")"
# The report has to wait for its database: paused.
cp "$DIR/good.yaml" /etc/onerun/onerun.yaml
due report 2026-09-17 SUCCEEDED
exits 0 person kim onerun pause report --reason 'its database is being moved, password=canary-4711'
cron 2026-09-18T03:00
nomail
exits 0 onerun explain report:2026-09-17
prints 'onerun resume report'
# Morning: both are caught up, as of the night's instants, by two accounts at once.
exits 0 person kim onerun resume report
for job in "daily-settlement --at 2026-09-18T01:00:00+09:00" "report --at 2026-09-18T03:00:00+09:00"; do
	person tester onerun run $job &
	exits 0 onerun run $job
	wait $!
done
# Saturday's settlement, for Friday, is a holiday's: cancelled in advance, by one of two.
due daily-settlement 2026-09-18 SKIPPED
atonce tester kim onerun resolve daily-settlement:2026-09-18 --as skipped --reason 'bank holiday'
# The ledger is made small. A date that went stays done.
exits 0 onerun prune daily-settlement --keep 2
prints '4 keys kept from running again'
for who in tester kim; do exits 75 person $who onerun run daily-settlement --date 2026-09-12 -E 75; done
exits 0 onerun explain daily-settlement:2026-09-12
prints 'succeeded'

### Saturday: nothing is settled. The machine goes down in the middle of the report.
cron 2026-09-19T01:00
nomail
codes daily-settlement 0 0
due report 2026-09-18 SUCCEEDED
night report 2026-09-18 "$hold"
cron 2026-09-19T03:00 &
crons=$!
up
everything "$wrapper" "$job"
waitfor ended "$job"
wait $crons
cat /proc/sys/kernel/random/uuid >"$DIR/boot_id"
mount --bind "$DIR/boot_id" /proc/sys/kernel/random/boot_id
exits 0 onerun stale
prints 'report:2026-09-18 .* dead .*boot'
exits 79 person tester onerun run report --date 2026-09-18
exits 0 onerun show report:2026-09-18
prints 'owner_died'
exits 0 person kim onerun rerun report:2026-09-18 --reason 'the machine went down in the middle'
once_more report 2026-09-18 'the machine went down'
exits 0 onerun run report --date 2026-09-18

### Sunday: a night as it should be. Nobody gets mail.
due daily-settlement 2026-09-19 SUCCEEDED
due report 2026-09-19 SUCCEEDED
for time in 01:00 01:05 03:00 03:05; do
	cron 2026-09-20T$time
	nomail
done
# All week's dates once more, by everybody: there is nothing left to do.
for date in 12 13 14 15 16 17 18 19; do
	for job in daily-settlement report; do
		person tester onerun run $job --date 2026-09-$date -E 75 &
		exits 75 onerun run $job --date 2026-09-$date -E 75
		code=0
		wait $! || code=$?
		test $code = 75 || die "$job of $date: $code"
	done
done
exits 0 onerun stale --exit-code
reckon
! grep -r canary-4711 /var/lib/onerun /etc/onerun || die "a password was kept"
doctor 0
finds ok event-chain ''
! grep '^danger' "$DIR/out" || die "that is dangerous"
