/*
 * The ledger of one key: the claim table, the ends that come late, and what people decide, on any number of hosts. See decide.go,
 * deliver.go, approve.go, and the functions of store/postgres/sql/functions.
 *
 * Time isn't here: a lease may be over as soon as its owner's job is gone, which is what lease.pml shows.
 */
#include "rules.pml"

#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#define RUNNING  0
#define SKIP     6           /* SKIPPED, by a person */

/* ---- the run, and its attempts by their numbers (each has an owner and a token of its own) ---- */

byte attempt;                /* 0: no run */
byte status;                 /* RUNNING, OK, SKIP, or how it FAILED */
bit  retry;                  /* FAILED, and another attempt may be made */
byte is[ATTEMPTS+1], late[ATTEMPTS+1], by[ATTEMPTS+1];
bit  decided[ATTEMPTS+1];    /* a person has approved a rerun since that attempt began */

/* An approval: of a run in one state, for one claim. */
bit  open;
byte ap_attempt, ap_status;

/* ---- the hosts: does the attempt's job run, and its end, noted on its host until the ledger has it ---- */

bit  works[ATTEMPTS+1];
byte spool[ATTEMPTS+1];

/* ---- what is promised ---- */

byte given, spent;           /* approvals, and what was executed for their sake */
byte saw_attempt, saw_status; /* the run as the approver saw it */
bit  known;                  /* SUCCEEDED is on record, and nobody has approved a rerun since */
bit  final;                  /* a person has closed the run */
bool two_owners, again, spent_twice, unseen, forgotten, denied, overruled;

#define failed(s)   (s != RUNNING && s != OK && s != SKIP)
#define same(a, b)  (a == b || (failed(a) && failed(b)))
#define usable      (open && ap_attempt == attempt && ap_status == status)
#ifdef UNBOUND      /* mutant: an approval is for any state of the run */
#define lifts       open
#else
#define lifts       usable
#endif

inline close(k, e, who) {
	is[k] = e; by[k] = who; status = e; retry = retried(e)
}

/* ---- a claim ---- */

#define allows (attempt == 0 || (status != RUNNING && (lifts || (failed(status) && retry))))

inline grant() {
	again = known && !lifts; promise(1, again);
	two_owners = (attempt >= 1 && is[1] == RUNNING) || (attempt >= 2 && is[2] == RUNNING) || works[1] || works[2] || works[3];
	promise(2, two_owners);
	if
	:: attempt != 0 && lifts ->
		unseen = saw_attempt != attempt || saw_status != status; promise(3, unseen);
		can(12); spent++; spent_twice = spent > given; promise(4, spent_twice);
#ifndef NO_SPEND             /* mutant: an approval isn't used up */
		open = 0; ap_attempt = 0; ap_status = 0; saw_attempt = 0; saw_status = 0;
#endif
		known = 0; final = 0
	:: else
	fi;
	attempt++; status = RUNNING; retry = 0; works[attempt] = 1
}

proctype Claim() {
end:	do
#ifdef NO_CAS                /* mutant: the store looks, and then acts */
	:: d_step { attempt < ATTEMPTS && allows -> skip };
	   if
	   :: d_step { attempt < ATTEMPTS -> grant() }
	   :: attempt >= ATTEMPTS
	   fi
#else
	:: d_step { attempt < ATTEMPTS && allows -> grant() }
#endif
	/* What a claim finds dead it closes: another host after the lease, the owner's own by proof, and if no end is noted there. */
	:: d_step { attempt != 0 && status == RUNNING && !works[attempt] -> close(attempt, EXPIRED, MACHINE) }
	:: d_step { attempt != 0 && status == RUNNING && !works[attempt] && spool[attempt] == 0 -> close(attempt, DIED, MACHINE) }
	od
}

/* ---- the job, and its end ---- */

inline record(k) {           /* Finish or Deliver: by the owner, its guard, the next start on its host, or flush */
	if
	:: applies(is[k]) -> close(k, spool[k], OWNER)
	:: before(is[k], late[k], by[k], spool[k])
	:: corrects(is[k], late[k], by[k], spool[k], attempt != k || !same(status, is[k]) || decided[k]) ->
		overruled = final || attempt != k; promise(5, overruled);
		close(k, spool[k], OWNER); can(11)
	:: else ->
#ifndef NO_KEPT              /* mutant: an end that comes too late is dropped */
		late[k] = spool[k];
#endif
		if :: late[k] == OK && attempt != k && is[attempt] == OK -> can(9) :: late[k] == OK && is[k] == EXPIRED && final -> can(10) :: else fi
	fi;
	if :: is[k] == OK && status == OK -> known = 1 :: else fi;
	forgotten = is[k] != spool[k] && late[k] != spool[k]; promise(6, forgotten);
	denied = spool[k] == OK && attempt == k && status != OK && !final && !decided[k]; promise(7, denied);
	spool[k] = 0
}

proctype Work(byte k) {
end:	do
	:: d_step { works[k] -> works[k] = 0; spool[k] = OK }
	:: d_step { works[k] -> works[k] = 0; spool[k] = BAD }
	:: d_step { works[k] -> works[k] = 0 }                    /* it dies, and nobody has seen how it ended */
	:: d_step { spool[k] != 0 -> record(k) }
	od
}

/* ---- people: they look, and later they press ---- */

proctype Approver() {
	byte a, s;
end:	d_step { attempt != 0 && status != RUNNING -> a = attempt; s = status };
	if
#ifdef NO_EXPECT             /* mutant: it counts what the run is now, not what was seen */
	:: d_step { status != RUNNING && !usable ->
#else
	:: d_step { attempt == a && status == s && !usable ->
#endif
		open = 1; ap_attempt = attempt; ap_status = status; saw_attempt = a; saw_status = s; given++;
		decided[1] = 1; if :: attempt >= 2 -> decided[2] = 1 :: else fi; if :: attempt >= 3 -> decided[3] = 1 :: else fi }
	:: else                  /* told that it has changed, or is approved already */
	fi;
	a = 0; s = 0
}

proctype Resolver() {
	byte a, s;
end:	d_step { attempt != 0 && (failed(status) || (status == RUNNING && !works[attempt])) -> a = attempt; s = status };
	if
	:: d_step { attempt == a && status == s && !works[attempt] ->
		if :: status == RUNNING -> is[a] = OK; by[a] = PERSON :: else fi;
		status = OK; retry = 0; known = 1; final = 1 }
	:: d_step { attempt == a && status == s && !works[attempt] ->
		if :: status == RUNNING -> is[a] = SKIP; by[a] = PERSON :: else fi;
		status = SKIP; retry = 0; final = 1 }
	:: else
	fi;
	a = 0; s = 0
}

init {
	atomic {
		run Claim();
#ifdef NO_CAS
		run Claim();
#endif
		run Approver(); run Approver(); run Resolver();
		run Work(1); run Work(2); run Work(3)
	}
}
