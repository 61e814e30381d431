/*
 * What helps where no lease can: the owner of a lock was frozen, its lease is over, another one has the lock, and then its job goes
 * on. Its commit through the fence must fail, its finish must not touch its successor, and its token must be the smaller one. See
 * store/postgres/fence.go and "Where that is not enough" in docs/guarantees.md.
 */
#include "rules.pml"

#define OWNERS 3

byte owner, token;           /* the row of the lock; the token stays when the owner goes */
byte share;                  /* who holds the row in a transaction of its own; 0: nobody */
byte n;                      /* owners so far: their ids, in the order of their claims */
bit  works[OWNERS+1];
byte mine[OWNERS+1];         /* their tokens */
byte newest, seen;           /* outside, a receiver that keeps the largest token: from whom the newest effect was, and its token */

bool stale_commit, stale_effect, robbed;

inline claims() {
	n++; owner = n; works[n] = 1;
#ifdef TOKEN_AGAIN           /* mutant: a lock that is made anew begins with the first token */
	token = 1;
#else
	token++;
#endif
	mine[n] = token
}

proctype Owner(byte me) {
end:	do
	/* Free, or its lease is over; nobody is granted a lock whose row is held. */
	:: d_step { n == me-1 && share == 0 -> claims() }
	:: d_step { works[me] && owner == me && mine[me] == token && share == 0 ->
#ifndef NO_FENCE             /* mutant: it looks, and doesn't hold */
		share = me;
#endif
		skip };
	   d_step { stale_commit = works[me] && n != me; promise(1, stale_commit); share = 0 }
	/* The receiver refuses what has a smaller token than it has seen. */
	:: d_step { works[me] && mine[me] >= seen -> stale_effect = newest > me; promise(2, stale_effect); newest = me; seen = mine[me] }
	/* The end: the lock is freed, if it is still its own. */
#ifdef NO_OWNER              /* mutant: finish frees the lock, whoever has it */
	:: d_step { works[me] && share == 0 -> works[me] = 0; robbed = owner != 0 && owner != me; promise(3, robbed); owner = 0 }
#else
	:: d_step { works[me] && share == 0 -> works[me] = 0; if :: owner == me -> owner = 0 :: else -> can(13) fi }
#endif
	od
}

init { atomic { run Owner(1); run Owner(2); run Owner(3) } }
