/*
 * One host: the starts of one key on it, one after the other, each of which can die between any two steps. What excludes is the
 * flock, what proves a death is the note in the lock file, and the note keeps an end until the store has it (the spool). See
 * store/hostlock/doc.go, store/hostlock/{claim,settle,finish}.go, filelock/judge_linux.go, cmd/internal/cli/guard.go.
 *
 * Time isn't here: lease.pml shows that another host closes a run only when nothing of it runs here any more. Every "::" is a rule, as there.
 */
#include "rules.pml"

#ifndef STARTS
#define STARTS 3             /* of the key on this host, in one trace */
#endif
#ifndef DEATHS
#define DEATHS 9             /* of wrappers and guards, in one trace: 9 are as many as one likes */
#endif
#ifndef LOSSES
#define LOSSES 9             /* calls to the store that fail, in one trace */
#endif

/* ---- the store: the run of the key, and its attempts by their owners ---- */

byte latest;                 /* the owner of the last attempt; 0: no run. It is RUNNING while is[latest] == 0, and holds the lock then */
byte is[STARTS+1], late[STARTS+1], by[STARTS+1];

/* ---- the lock file: the note in it (the flock is had while wrapper or guard is there) ---- */

mtype = { asking, granted, forking, running, noted };
byte  note;                  /* the owner that it names; 0: there is no note */
mtype state;
byte  spool;                 /* noted: its end */
byte  proven, blank;         /* owners that died before it, a bit each, and those of them that never began */

/* ---- processes ---- */

/*
 *           the wrapper                                        the guard
 * locked    has the flock, and reads the note
 * asked     has noted that it asks, and sent its claim         has noted the end, and kills the wrapper if there is one
 * won       has noted the grant
 * ready     has noted that it forks
 * forked    has started the job
 * working   has noted its group                                watches
 * seen      has waited for the job                             has seen an end, or made one
 * kept      has noted the end                                  tells the store
 * told      knows that the store has it                        likewise
 * cleared   has taken the note away
 */
mtype = { gone, locked, asked, won, ready, forked, working, seen, kept, told, cleared };
mtype wrapper = gone, guard = gone;
byte  me, n;
byte  was, wspool, wproven, wblank; mtype wstate;  /* the note as the wrapper found it */
byte  claim, answer;         /* a claim on its way, and what came back: 1 granted, 2 refused */
byte  cdead, cblank;
byte  out;                   /* the end that the wrapper has seen */
byte  job;                   /* whose job runs; the guard watches the same owner's */
byte  zombie;                /* how the job's first process has ended, until somebody has waited for it */
byte  gout;                  /* the end that the guard has seen, or made */
byte  gfor;                  /* whom it guards */
bit   frozen;                /* the wrapper is */
byte  stale;                 /* the claim of a wrapper that has died since, still on its way */
byte  deaths, losses;

/* ---- what is promised ---- */

byte began;                  /* owners whose job was started, a bit each */
byte truth[STARTS+1];        /* the end of each job that the store was to be told */
bool overlap, again, forgotten, wrong_proof, locked_out;

#define bit_of(o) (1 << (o))
#define keeps(o) (is[o] == truth[o] || late[o] == truth[o] || (note == o && spool == truth[o]))
inline keep() {              /* what was noted, or told, is in the ledger or waits on this host */
	forgotten = (truth[1] != 0 && !keeps(1)) || (truth[2] != 0 && !keeps(2)) || (truth[3] != 0 && !keeps(3));
	promise(2, forgotten)
}

/* ---- what the store does, in one step each ---- */

inline close(o, e, who) { is[o] = e; by[o] = who }

inline deliver(o, e) {       /* as well Finish, by an owner that still has its lock */
	if
	:: applies(is[o]) -> close(o, e, OWNER)
	:: before(is[o], late[o], by[o], e)
	:: corrects(is[o], late[o], by[o], e, latest != o) -> close(o, e, OWNER)
	:: else -> late[o] = e
	fi
}

inline decide() {            /* the claim table */
	if
#ifndef NO_ADOPT             /* mutant: the store knows nobody again */
	:: latest == claim && is[latest] == 0 -> answer = 1
#endif
	:: else ->
		if
		:: latest != 0 && is[latest] == 0 && (cdead & bit_of(latest)) ->
			wrong_proof = job == latest || ((cblank & bit_of(latest)) && (began & bit_of(latest))); promise(3, wrong_proof);
			can(7); close(latest, (cblank & bit_of(latest) -> VOID : DIED), MACHINE)
		:: else
		fi;
		if
		:: latest == 0 || retried(is[latest]) -> latest = claim; answer = 1
		:: else -> answer = 2; locked_out = latest == claim && is[latest] == 0; promise(4, locked_out)
		fi
	fi
}

/* Something is asked of the store: it is done or not; and known to be, or not. */
#define fails losses < LOSSES -> losses = losses + (LOSSES < 9)

active proctype Store() {
end:	do
	:: d_step { claim != 0 -> decide(); claim = 0; cdead = 0; cblank = 0 }
	/* The claim of a start that has died comes late, and is granted. If no note names it any more, its lease has to run out. */
	:: d_step { stale != 0 && (latest == 0 || retried(is[latest])) ->
		if :: note != stale && !(proven & bit_of(stale)) -> can(14) :: else fi; latest = stale; stale = 0 }
	:: d_step { stale != 0 -> stale = 0 }
	:: d_step { claim != 0 && fails; claim = 0; cdead = 0; cblank = 0 }
	:: d_step { answer != 0 && fails; answer = 0 }
	od
}

#ifndef NO_LEASE             /* a store without leases, such as the embedded one */
active proctype Elsewhere() {
end:	do
	/* Another host's claim finds the lease over, and can't know how the job ended. */
	:: d_step { latest != 0 && is[latest] == 0 && job != latest && wrapper != ready && wrapper != forked -> close(latest, EXPIRED, MACHINE) }
	od
}
#endif

/* ---- the wrapper ---- */

inline clear() { note = 0; state = 0; spool = 0; proven = 0; blank = 0 }
inline forget() { was = 0; wspool = 0; wproven = 0; wblank = 0; wstate = 0 }
inline exit() {
	wrapper = gone; frozen = 0; me = 0; out = 0; answer = 0; forget()
}
inline abandon() {           /* a claim may be on its way */
	exit();
#ifdef NO_LEASE              /* it decides in the caller's own process, so a claim dies with its caller */
	claim = 0; cdead = 0; cblank = 0
#else
	if :: claim != 0 -> stale = claim; claim = 0; cdead = 0; cblank = 0 :: else fi
#endif
}

/* In the end the wrapper says so to the guard, and frees the flock for both. */
inline release() {
	if :: guard == working -> retire() :: else fi;
	exit()
}

inline retire() { guard = gone; gout = 0; gfor = 0 }

/* The judge: is the work of the note over? Else it stands in the way, on this host. */
#ifdef NO_PROOF              /* mutant: who finds the flock free takes over */
#define lives 0
#else
#define lives ((state == forking || state == running) && job == note)
#endif

active proctype Wrapper() {
end:	do
	:: d_step { wrapper == gone && guard == gone && n < STARTS -> n++; me = n; wrapper = locked }

	/* Settle: first the end that the note holds is delivered, or nothing is claimed. */
	:: d_step { !frozen && wrapper == locked && state == noted && spool != 0 -> deliver(note, spool); clear(); can(5); keep() }
	:: d_step { !frozen && wrapper == locked && state == noted && spool != 0 && fails; exit() }
	:: d_step { !frozen && wrapper == locked && lives -> n--; exit(); can(8) }
	:: d_step { !frozen && wrapper == locked && state != noted && !lives ->
		was = note; wstate = state; wspool = spool; wproven = proven; wblank = blank;
		cdead = proven; cblank = blank;
#ifndef NO_TAKEOVER          /* mutant: nobody is ever said to be dead */
		if
		:: note != 0 -> cdead = cdead | bit_of(note); if :: state == asking || state == granted -> cblank = cblank | bit_of(note) :: else fi
		:: else
		fi;
#endif
		note = me; state = asking; spool = 0; proven = cdead; blank = cblank; /* what was proven is carried on until the store has been told */
		claim = me; answer = 0; wrapper = asked; keep() }
	:: d_step { !frozen && wrapper == asked && answer == 0 && claim == 0 -> claim = me; cdead = proven; cblank = blank } /* no answer: again, with the same owner id */
	:: d_step { !frozen && wrapper == asked && answer == 0 && fails; abandon() }
	:: d_step { !frozen && wrapper == asked && answer == 2 ->
		note = was; state = wstate; spool = wspool; proven = wproven; blank = wblank; n--; exit(); keep() }
	:: d_step { !frozen && wrapper == asked && answer == 1 -> state = granted; proven = 0; blank = 0; answer = 0; forget(); wrapper = won }
	:: d_step { !frozen && wrapper == won -> state = forking; wrapper = ready }
	:: d_step { !frozen && wrapper == ready ->
		overlap = job != 0; promise(5, overlap);
		again = truth[1] == OK || truth[2] == OK || truth[3] == OK; promise(6, again);
		job = me; began = began | bit_of(me); wrapper = forked }
	:: d_step { !frozen && wrapper == forked -> state = running; wrapper = working }
	:: d_step { !frozen && wrapper == working && guard == gone && job == me -> guard = working; gfor = me }
	:: d_step { !frozen && wrapper == working && zombie != 0 -> out = zombie; zombie = 0; wrapper = seen }
	/* Killed by the guard, or by hand: that was no end of its own. */
	:: d_step { !frozen && wrapper == working && zombie == 0 && job != me -> out = BAD; wrapper = seen }
#ifdef NO_SPOOL              /* mutant: the store is told, and the note is for when that fails */
	:: d_step { !frozen && wrapper == seen -> truth[me] = out; wrapper = kept }
	:: d_step { !frozen && wrapper == kept && fails; state = noted; spool = out; exit() }
#else
	:: d_step { !frozen && wrapper == seen -> state = noted; spool = out; truth[me] = out; wrapper = kept; keep() }
	:: d_step { !frozen && wrapper == kept && fails; release() } /* given up: both let go of the flock */
#endif
	:: d_step { !frozen && wrapper == kept -> deliver(me, out); wrapper = told; keep() }
	:: d_step { !frozen && wrapper == kept && fails; deliver(me, out) }                     /* it is done, and nobody says so */
	:: d_step { !frozen && wrapper == told -> clear(); wrapper = cleared; keep() }
	:: d_step { !frozen && wrapper == cleared -> release() }
	od
}

/* ---- the job ---- */

active proctype Job() {
end:	do
	:: d_step { job != 0 && job == me && wrapper != forked -> zombie = OK; job = 0 }
	:: d_step { job != 0 && job == me && wrapper != forked && DEATHS >= 9 -> zombie = BAD; job = 0 }
	:: d_step { job != 0 && job != me -> job = 0 }                               /* what an earlier start has left ends */
	od
}

inline kill() { if :: wrapper != gone && me == gfor -> exit(); zombie = 0 :: else fi }

/* ---- the guard: it shares the flock, and does what a dead wrapper can't ---- */

active proctype Guard() {
end:	do
	:: d_step { guard == working && zombie != 0 && gout == 0 -> gout = zombie }  /* it looks, and leaves it to be waited for */
	:: d_step { guard == working && wrapper == gone ->
		if :: gout == 0 -> gout = DIED; if :: job == gfor -> job = 0 :: else fi :: else fi;
		guard = seen }
	/* A deadline (of the job's own time, or of the lease) has passed, and the wrapper doesn't act. */
	:: d_step { guard == working && frozen ->
		if :: gout == 0 -> gout = BAD; if :: job == gfor -> job = 0 :: else fi :: else fi;
		guard = seen }
	:: d_step { guard == seen && note != gfor -> retire() }                      /* the wrapper had done everything */
	:: d_step { guard == seen && note == gfor && state == noted -> gout = spool; guard = asked; can(6) }
	:: d_step { guard == seen && note == gfor && state != noted -> state = noted; spool = gout; truth[gfor] = gout; guard = asked; keep() }
	:: d_step { guard == asked -> kill(); guard = kept }
	:: d_step { guard == kept -> spool = gout; deliver(gfor, gout); guard = told; keep() }
	:: d_step { guard == kept && fails; deliver(gfor, gout) }
	:: d_step { guard == kept && fails; retire() }                               /* given up */
	:: d_step { guard == told -> clear(); retire(); keep() }
	od
}

/* ---- SIGKILL, SIGSTOP, SIGCONT ---- */

#define dies deaths < DEATHS -> deaths = deaths + (DEATHS < 9)

active proctype Death() {
end:	do
	/* The kernel kills the job's first process with it; what else it has started may live on. */
	:: d_step { wrapper != gone && dies; abandon(); zombie = 0; keep() }
	:: d_step { wrapper != gone && dies; if :: job == me -> job = 0 :: else fi; abandon(); zombie = 0; keep() }
	:: d_step { guard != gone && dies; retire(); keep() }
	:: d_step { wrapper != gone && !frozen && DEATHS >= 9 -> frozen = 1 }
#ifdef THAW                  /* a known hole: it goes on in the moment in which the guard has given it up */
	:: d_step { frozen -> frozen = 0 }
#else
	:: d_step { frozen && (guard == gone || guard == working) -> frozen = 0 }
#endif
	od
}

/* Every due key ends, or is visibly blocked: a person has to look (EXPIRED). For small DEATHS and LOSSES, and jobs that succeed. */
#ifdef LIVE
ltl ends { <> (latest != 0 && (is[latest] == OK || is[latest] == EXPIRED)) }
#endif
