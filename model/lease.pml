/*
 * The lease. One host wants a lock of a store of many machines, again and again, and everybody else wants it too. See "How a
 * lease keeps its promise" in docs/guarantees.md; the code is in lease.go, asking.go, keeper.go and internal/process/guard*_linux.go.
 *
 * The host is modelled step by step, the others as whoever is granted the lock as soon as the store would grant it to anybody:
 * what the host owes them, each of them owes the host.
 *
 * A unit of time is a third of the margin m. Only the order of the deadlines counts, not their length:
 *
 *	sent                   a claim or a heartbeat goes out
 *	sent + TERM            no answer since: the job is asked to end (it may end at any time here, so that isn't seen)
 *	sent + KILL            the wrapper kills it
 *	sent + KILL + SLACK    the guard does
 *	came + TTL             free for others, by the store's clock
 *
 * Every "::" of a process is a rule: what must hold, then what is done, in one step. Between two rules, all others may act.
 */
#include "rules.pml"

#define TTL    6
#ifdef NO_MARGIN             /* mutant: the owner stops when its time is over, not before */
#define MARGIN 0
#else
#define MARGIN 3             /* LeaseMargin */
#endif
#define KILL   (TTL-MARGIN)  /* KillAfter */
#define TERM   2             /* TermAfter */
#define SLACK  1             /* how long the guard leaves it to the wrapper: GuardLease.deadline */
#ifndef DRIFT
#define DRIFT  1             /* how much a host's clock may lose within one lease: less than MARGIN-SLACK */
#endif
#define MOST   (KILL+SLACK)  /* longer than this is all the same */
#define NEVER  15            /* no request is on its way */
#define OTHER  7             /* the owner id of somebody on another host */
#ifndef OWNERS
#define OWNERS 2             /* acquisitions of this host in one trace */
#endif

/* ---- the store: the row of the lock ---- */

byte owner;                  /* 0: it is free */
byte left;                   /* of the lease, by the store's clock */
byte last;                   /* the newest owner */

/* ---- messages to the store: they come late, in any order, or never; so do the answers ---- */

mtype = { claim, beat, finish, yes, no };
typedef Message {
	mtype kind;              /* 0: none */
	byte who, dead;
	bit wanted               /* the sender still waits for the answer */
}
Message msg[2];
mtype answer;

/* ---- the host ---- */

mtype = { gone, asking, granted, looked, working, ended };
mtype wrapper = gone;
mtype = { absent, watching, killed };
mtype guard = absent;
bit   wfrozen, gfrozen;
byte  me, job;               /* the wrapper's owner id, and whose job runs; 0: nobody's */
byte  dead;                  /* a bit for each owner that the lock file proves dead, as soon as flock and job are gone */
byte  since, slow;           /* since the newest renewal was sent, by the host's clock; and what that clock has lost since then */
byte  tried, tslow;          /* the same since the oldest try that may have been granted */
byte  n;
bit   excused;               /* nobody was there who could have stopped the job in time */

bool beside;                 /* the job runs beside its successor */

#define able    (wrapper != gone && !wfrozen)
#define guarded (guard == watching && !gfrozen)
#define bit_of(o) (1 << (o))

/* The exceptions, as docs/guarantees.md lists them: wrapper and guard are frozen or killed, both, in any mixture (a whole host
   that is frozen is that, too); or the wrapper is, before there is a guard. A guard that nobody starts excuses nothing. */
#ifdef NO_GUARD              /* mutant: there is none */
#define helpless (!able && wrapper == looked)
#elif defined(NO_EXCUSE)     /* mutant: to show that the exceptions are real */
#define helpless 0
#else
#define helpless (!able && !guarded)
#endif

inline clear(i) { msg[i].kind = 0; msg[i].who = 0; msg[i].dead = 0; msg[i].wanted = 0 }
inline fill(i, k, d) { msg[i].kind = k; msg[i].who = me; msg[i].dead = d; msg[i].wanted = 1 }

inline send(k, d) {
	msg[0].wanted = 0; msg[1].wanted = 0; answer = 0;
	if
	:: msg[0].kind == 0 -> fill(0, k, d)
	:: msg[0].kind != 0 && msg[1].kind == 0 -> fill(1, k, d)
	:: else              /* lost */
	fi
}

inline rest() { if :: wrapper == gone && job == 0 -> since = 0; slow = 0; excused = 0 :: else fi }

inline stop() { job = 0; if :: wrapper != looked -> excused = 0 :: else fi; rest() }

inline leave() {             /* the wrapper ends, in whatever way */
	wrapper = gone; wfrozen = 0; me = 0; tried = NEVER; tslow = 0; answer = 0; msg[0].wanted = 0; msg[1].wanted = 0; rest()
}

inline renew() {             /* the deadline counts from before the request was sent */
#ifdef FROM_ANSWER           /* mutant: from the answer */
	since = 0; slow = 0;
#else
	since = tried; slow = tslow;
#endif
	tried = NEVER; tslow = 0; answer = 0
}

active proctype Host() {
	do
	/* The flock is free, since neither wrapper nor guard has it, and nothing of the last job runs: ask, and say who is dead. */
	:: d_step { wrapper == gone && guard != watching && job == 0 && n < OWNERS ->
		n++; me = n; wrapper = asking; guard = absent; tried = 0; tslow = 0; send(claim, dead); dead = dead | bit_of(me) }
	/* No answer. The store may have granted what was sent first and doesn't extend it, so the lease counts from there. */
	:: d_step { able && wrapper == asking && answer == 0 ->
#ifdef FROM_LAST_TRY         /* mutant */
		tried = 0; tslow = 0;
#endif
		send(claim, dead & ~bit_of(me)) }
	:: d_step { able && wrapper == asking && answer == no -> dead = dead & ~bit_of(me); leave() }
	:: d_step { able && wrapper == asking && answer == yes -> wrapper = granted; dead = bit_of(me); renew();
		if :: since >= TERM -> can(1) :: else fi }
	/* The last look at the clock before the fork. A grant that came late is renewed first. */
#ifdef NO_LOOK               /* mutant */
	:: d_step { able && wrapper == granted -> wrapper = looked }
#else
	:: d_step { able && wrapper == granted && since < TERM -> wrapper = looked }
#endif
	:: d_step { able && wrapper == looked ->
		wrapper = working; job = me; beside = last != me && !excused; promise(1, beside) }
#ifndef NO_GUARD
	:: d_step { able && wrapper == working && job != 0 && guard != watching -> guard = watching }
#endif
	:: d_step { able && (wrapper == granted || wrapper == working) && tried != 0 -> tried = 0; tslow = 0; send(beat, 0) }
	:: d_step { able && (wrapper == granted || wrapper == working) && answer == yes -> renew() }
	:: d_step { able && wrapper == granted && (answer == no || since >= TERM) -> leave() }
	:: d_step { able && wrapper == working && job != 0 && (answer == no || since >= KILL) -> job = 0; excused = 0 }
	/* The job has ended, in whatever way: tell the store, for as long as that has sense. */
	:: d_step { able && wrapper == working && job == 0 -> wrapper = ended; tried = NEVER; tslow = 0; send(finish, 0) }
	:: d_step { able && wrapper == ended && answer == 0 -> send(finish, 0) }
	:: d_step { able && wrapper == ended && answer != 0 -> dead = 0; guard = absent; gfrozen = 0; leave() }
	:: d_step { able && wrapper == ended -> guard = absent; gfrozen = 0; leave() }

	/* The guard, when the wrapper is gone or the deadline has passed: it kills the tree, then the wrapper, then frees the flock. */
	:: d_step { guarded && wrapper == gone -> stop(); guard = absent }
	:: d_step { guarded && job != 0 && since >= KILL+SLACK -> stop(); leave(); guard = absent; can(2) }

	/* What can happen at any time. */
	:: d_step { job != 0 -> stop() }                                    /* the job ends */
	:: d_step { wrapper != gone && !wfrozen -> wfrozen = 1 }
	:: d_step { wrapper != gone && wfrozen -> wfrozen = 0 }
	:: d_step { guard == watching && !gfrozen -> gfrozen = 1 }
	:: d_step { guard == watching && gfrozen -> gfrozen = 0 }
	:: d_step { wrapper != gone -> leave() }                            /* SIGKILL: what it has started may live on */
	:: d_step { guard == watching -> guard = killed; gfrozen = 0 }
	od
}

/* ---- the store decides about each request in one step ---- */

inline reply(i, what) { if :: msg[i].wanted -> answer = what :: else fi; clear(i) }

inline grant(to) {
	beside = job != 0 && job != to && !excused; promise(1, beside);
	owner = to; last = to; left = TTL
}

inline serve(i) {
	if
	:: d_step { msg[i].kind != 0 -> clear(i) }                          /* lost */
	:: d_step { msg[i].kind == claim && owner == msg[i].who -> reply(i, yes); can(3) } /* asked again: adopted, not extended */
	:: d_step { msg[i].kind == claim && owner != msg[i].who && (owner == 0 || left == 0 || (msg[i].dead & bit_of(owner))) ->
		if :: owner != 0 && left != 0 -> can(4) :: else fi; grant(msg[i].who); reply(i, yes) }
	:: d_step { msg[i].kind == claim && owner != msg[i].who && !(owner == 0 || left == 0 || (msg[i].dead & bit_of(owner))) -> reply(i, no) }
	:: d_step { msg[i].kind == beat && owner == msg[i].who -> left = TTL; reply(i, yes) }
	:: d_step { msg[i].kind == beat && owner != msg[i].who -> reply(i, no) }
	:: d_step { msg[i].kind == finish -> if :: owner == msg[i].who -> owner = 0; left = 0 :: else fi; reply(i, yes) }
	fi
}

active proctype Store() {
	do
	:: serve(0)
	:: serve(1)
	/* Everybody else. */
	:: d_step { owner == 0 || left == 0 -> grant(OTHER) }
	:: d_step { owner == OTHER -> owner = 0; left = 0 }
	od
}

/* ---- time goes on when nobody is about to do what it must do by now ---- */

#ifdef NO_GUARD
#define unguarded 0
#else
#define unguarded (able && wrapper == working && job != 0 && guard == absent) /* the 50 ms after a start are less than a unit */
#endif
#define hurry ( unguarded || (able && wrapper == looked) || (able && job != 0 && since >= KILL) || (guarded && job != 0 && since >= KILL+SLACK) )
#define counts (job != 0 || wrapper == granted || wrapper == looked || wrapper == working)

inline advance(clock) { if :: clock < MOST -> clock++ :: else fi }
inline lag(clock, lost) { if :: clock < MOST -> lost++ :: else fi }

inline tick() {
	if :: left > 0 && owner != OTHER -> left-- :: else fi;
	if :: counts && wrapper != granted && since >= KILL+SLACK && helpless -> excused = 1 :: else fi
}

active proctype Time() {
	tried = NEVER;
	do
	:: d_step { !hurry -> tick();
		if :: counts -> advance(since) :: else fi;
		if :: tried != NEVER -> advance(tried) :: else fi }
	/* The host's clock is slower than the store's: it stands still this time. */
	:: d_step { !hurry && slow < DRIFT && tslow < DRIFT -> tick();
		if :: counts -> lag(since, slow) :: else fi;
		if :: tried != NEVER -> lag(tried, tslow) :: else fi }
	od
}
