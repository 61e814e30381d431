# Words for the week: two crontabs, a job that keeps a book of its own, and the sum at the end.

# book: /srv/book is what the jobs write, and the product knows nothing of. witness has one
# line for each execution, JOB DATE ATTEMPT, which the job itself appends; story has what
# the script says that happened: dates that were due, and executions beyond the first.
book() {
	mkdir -p /srv/book/nights /srv/jobs
	touch /srv/book/witness /srv/book/rates /srv/book/waits /srv/book/story
	mkfifo /srv/book/up /srv/book/go
	chmod 0666 /srv/book/*
	chmod 0755 /srv/book/nights
	cat >/srv/jobs/night <<-'END'
		#!/bin/sh
		# Every job of the week. It writes its line, and then does what this night has in store.
		echo "$ONERUN_JOB ${ONERUN_PARTITION:--} $ONERUN_ATTEMPT" >>/srv/book/witness
		night=/srv/book/nights/$ONERUN_JOB.$ONERUN_PARTITION.$ONERUN_ATTEMPT
		test ! -e "$night" || . "$night"
	END
	cat >/srv/jobs/rates <<-'END'
		#!/bin/sh
		# The job without a key: two of it at once would mix their lines.
		echo begin >>/srv/book/rates
		echo end >>/srv/book/rates
	END
	chmod 0755 /srv/jobs/*
}

# night JOB DATE COMMANDS: what its first attempt does in that night, after its line is written.
# $hold: it says its pid and its account, and waits until morning.
night() { echo "$3" >"/srv/book/nights/$1.$2.1"; }
hold='echo $$ $(id -u) >/srv/book/up; read -r word </srv/book/go'
# $leave: it leaves a process behind that waits, and ends itself only after that.
leave='timeout --foreground 60 cat /srv/book/go & echo $$ $(id -u) >/srv/book/up; wait'

# up: waits for the job of this night: its pid (and so its group's number), account and wrapper.
up() {
	read -r job account </srv/book/up
	wrapper=$(ps -o ppid= -p "$job" | tr -d ' ')
}
morning() { echo morning >/srv/book/go; }

# cron TIME: what cron does at that minute of the week, Seoul's time: each line of the two
# crontabs that is due, all at once, each in cron's own environment. What they print goes
# into mail, and ACCOUNT CODE COMMAND of each into codes.
cron() {
	: >"$DIR/mail"
	: >"$DIR/codes"
	at=$1:00+09:00
	{
		sed 's/^/root /' /etc/crontab | awk '{ $7 = ""; print }'
		sed 's/^/tester /' /var/spool/cron/crontabs/tester
	} | awk -v hour="${1#*T}" 'BEGIN { split(hour, t, ":") }
		($2 == t[2] + 0 || $2 == "*/5" && t[2] % 5 == 0) && ($3 == "*" || $3 == t[1] + 0) {
			line = $1; for (i = 7; i <= NF; i++) line = line " " $i; print line
		}' >"$DIR/lines"
	test -s "$DIR/lines" || die "no line of a crontab is due at $1"
	pids=
	while read -r account command; do
		crontab_line "$account" "$command" "$at" &
		pids="$pids $!"
	done <"$DIR/lines"
	for pid in $pids; do wait "$pid"; done
}
crontab_line() {
	who="env"
	test "$1" = root || who="member 4711 env"
	code=0
	$who -i PATH="$PATH" LOGNAME="$1" HOME=/ SHELL=/bin/sh ONERUN_SCHEDULED_AT="$3" /bin/sh -c "$2" >>"$DIR/mail" 2>&1 </dev/null || code=$?
	echo "$1 $code $2" >>"$DIR/codes"
}

# codes JOB CODE...: how the lines of a job ended, in any order.
codes() {
	job_of_line=$1
	shift
	got=$(awk -v job="$job_of_line" '$5 == job { print $2 }' "$DIR/codes" | sort -n | tr '\n' ' ')
	test "$got" = "$* " || die "$job_of_line ended with $got, want $*: $(cat "$DIR/mail")"
}
nomail() { test ! -s "$DIR/mail" || die "cron mails: $(cat "$DIR/mail")"; }

# atonce NAME1 NAME2 COMMAND...: two people type the same at once: for one it is done, and
# the other is told, with 1.
atonce() {
	one=$1 two=$2
	shift 2
	rm -f "$DIR/one" "$DIR/two"
	person "$one" "$@" >"$DIR/out" 2>"$DIR/err" &
	first=$!
	code2=0
	person "$two" "$@" >"$DIR/out2" 2>"$DIR/err2" || code2=$?
	code1=0
	wait $first || code1=$?
	cat "$DIR/err2" >>"$DIR/err"
	test "$code1$code2" = 01 -o "$code1$code2" = 10 || die "$*: $code1 and $code2: $(cat "$DIR/err")"
}

# due JOB DATE STATUS: a date of the week, and how it must stand in the ledger at its end.
due() { echo "due $*" >>/srv/book/story; }
# once_more JOB DATE WHY: one execution more of it, which this story names.
once_more() { echo "more $*" >>/srv/book/story; }

# reckon: the sum of the week. Each date that was due is in the ledger as it must be; each
# that succeeded by its job was executed, none more often than the story says, and no attempt
# twice; nothing was executed that was not due; and the job without a key never beside itself.
reckon() {
	while read -r word job date status; do
		test "$word" = due || continue
		onerun show "$job:$date" --json >"$DIR/out" || die "$job:$date is not in the ledger"
		grep -q "^  \"status\": \"$status\"" "$DIR/out" || die "$job:$date is not $status: $(cat "$DIR/out")"
	done </srv/book/story
	awk '
		$1 == "due" { may[$2 " " $3]++; status[$2 " " $3] = $4; next }
		$1 == "more" { may[$2 " " $3]++; next }
		{ ran[$1 " " $2]++ }
		seen[$0]++ { print "one attempt, executed twice: " $0 }
		END {
			for (d in ran) if (ran[d] > may[d] + 0) print d " was executed " ran[d] " times, and may " may[d] + 0
			for (d in status) if (status[d] == "SUCCEEDED" && !ran[d]) print d " was not executed"
			for (d in status) if (status[d] == "SKIPPED" && ran[d]) print d " was cancelled, and executed"
		}' /srv/book/story /srv/book/witness >"$DIR/wrong"
	awk '$1 != (NR % 2 ? "begin" : "end") { print "fetch-rates ran beside itself, line " NR; exit }' /srv/book/rates >>"$DIR/wrong"
	test ! -s "$DIR/wrong" || die "$(cat "$DIR/wrong")
$(cat /srv/book/witness)"
}
