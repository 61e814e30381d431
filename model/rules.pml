/* What the store decides by, for host.pml and ledger.pml. */

/* A test that wants to see that something can happen says -DCAN=N, and finds a violation at can(N). */
#ifdef CAN
#define can(i) assert(CAN != i)
#else
#define can(i) skip
#endif

/* What is promised, each under its name and a number. A test that wants one alone says -DONLY=NUMBER. */
#ifdef ONLY
#define promise(i, broken) assert(ONLY != i || !broken)
#else
#define promise(i, broken) assert(!broken)
#endif

/* How an attempt has ended, for the ledger (0: it is RUNNING), and in truth. */
#define OK       1           /* SUCCEEDED */
#define BAD      2           /* FAILED exit: a known failure, for which the policy has a retry */
#define DIED     3           /* FAILED owner_died: proven, retried as well */
#define VOID     4           /* the same, but the job never began */
#define EXPIRED  5           /* FAILED lease_expired: nobody knows, so it isn't retried */

#define retried(end) (end == BAD || end == DIED || end == VOID)

/* Who has closed an attempt. */
#define OWNER    1
#define MACHINE  2
#define PERSON   3

/* What becomes of an end that is delivered (DeliveryOf in deliver.go). is: the attempt's end as recorded; late: one that is kept
   beside it; by: who has closed it; touched: it isn't the run's last attempt, the run says otherwise, or a person has decided. */
#define applies(is)                              (is == 0)
#define before(is, late, by, end)                ((is == end && by == OWNER) || late == end)
#ifdef NO_CORRECTION         /* mutant: who closed it first is right */
#define corrects(is, late, by, end, touched)     (0)
#elif defined(ALWAYS_CORRECT) /* mutant: who delivers last is right */
#define corrects(is, late, by, end, touched)     (!applies(is) && !before(is, late, by, end))
#else
#define corrects(is, late, by, end, touched)     (!applies(is) && !before(is, late, by, end) && by == MACHINE && !(touched))
#endif
