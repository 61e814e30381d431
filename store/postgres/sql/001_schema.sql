-- The schema of the PostgreSQL store, version 1. It is documented in
-- docs/stores/postgres.md and meant to be read by people and reports: read as much as you
-- like, write nothing.
--
-- Times are timestamptz: an instant, whatever zone a session shows it in, and what reports
-- and dashboards can reckon with. Durations are microseconds. Names are compared byte by
-- byte (COLLATE "C"), as on every other store, whatever the database's own collation.

CREATE TABLE onerun_schema (
    version integer NOT NULL           -- one row
);

CREATE TABLE onerun_run (
    run_id        text        COLLATE "C" NOT NULL PRIMARY KEY,
    namespace     text        COLLATE "C" NOT NULL,
    job           text        COLLATE "C" NOT NULL,
    partition     text        COLLATE "C",    -- NULL: unkeyed
    key           text        COLLATE "C",    -- JOB:PARTITION, NULL: unkeyed
    business_date text,
    lock          text        COLLATE "C" NOT NULL,
    status        text        COLLATE "C" NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'SKIPPED')),
    attempt       integer     NOT NULL,       -- the last one; 0: cancelled in advance
    scheduled_at  timestamptz,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    next_retry_at timestamptz,
    token         bigint,
    worker_id     text,
    host          text,
    pid           integer,
    stale_after   bigint,                     -- NULL: reckoned from history
    reason        text,
    exit_code     integer,
    signal        text,
    error         text,
    processed     bigint,
    failed        bigint,
    version_label text,
    labels        jsonb                       -- an object, NULL: none
);

CREATE UNIQUE INDEX onerun_run_key     ON onerun_run (namespace, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX onerun_run_running ON onerun_run (namespace, lock) WHERE status = 'RUNNING';
-- Pages of a listing, by state and by job and state, each read from its index alone
-- whatever else the ledger holds.
CREATE INDEX onerun_run_status ON onerun_run (status, namespace, started_at, run_id);
CREATE INDEX onerun_run_job    ON onerun_run (namespace, job, status, started_at, run_id);
CREATE INDEX onerun_run_retry  ON onerun_run (namespace, next_retry_at) WHERE next_retry_at IS NOT NULL;

CREATE TABLE onerun_attempt (
    run_id      text        COLLATE "C" NOT NULL,
    attempt     integer     NOT NULL,
    status      text        COLLATE "C" NOT NULL,
    void        boolean     NOT NULL DEFAULT false,  -- claimed, but its job never started
    closed_by   text,                                -- NULL: its owner; machine; operator
    owner       text        COLLATE "C" NOT NULL,
    token       bigint      NOT NULL,
    lock        text        COLLATE "C" NOT NULL,
    worker_id   text,
    host        text,
    machine     text,
    boot        text,
    pid_ns      bigint,
    time_ns     bigint,
    pid         integer,
    start_ticks bigint,
    in_process  boolean     NOT NULL DEFAULT false,  -- the work is a function of the worker's process
    ttl         bigint      NOT NULL,                -- its lease
    on_crash    text        NOT NULL,
    two_people  boolean     NOT NULL DEFAULT false,
    stale_after bigint,
    retries     integer     NOT NULL,
    backoff_min bigint      NOT NULL,
    backoff_max bigint      NOT NULL,
    retry_lost  boolean     NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    reason      text,
    exit_code   integer,
    signal      text,
    error       text,
    processed   bigint,
    failed      bigint,
    late        jsonb,                               -- an end that came too late
    PRIMARY KEY (run_id, attempt)
);

CREATE UNIQUE INDEX onerun_attempt_running ON onerun_attempt (run_id) WHERE status = 'RUNNING';

-- What an attempt printed. A table of its own, so that a run's row stays short.
CREATE TABLE onerun_output (
    run_id      text        COLLATE "C" NOT NULL,
    attempt     integer     NOT NULL,
    at          timestamptz NOT NULL,   -- when it was recorded
    bytes_total bigint      NOT NULL,   -- how many bytes were printed
    truncated   boolean     NOT NULL,   -- text lacks the beginning of them
    text        text        NOT NULL,
    PRIMARY KEY (run_id, attempt)
);

-- A lock outlives its owners: the token is the last one that was given out. Every
-- heartbeat writes a row anew: no index has one of the columns that it changes, and the
-- room in each page lets the new row lie beside the old one.
CREATE TABLE onerun_lock (
    namespace   text        COLLATE "C" NOT NULL,
    lock        text        COLLATE "C" NOT NULL,
    token       bigint      NOT NULL,
    owner       text        COLLATE "C",  -- NULL: free
    run_id      text        COLLATE "C",  -- NULL: a lock alone
    attempt     integer,
    expires_at  timestamptz,
    ttl         bigint,
    on_crash    text,
    acquired_at timestamptz,
    worker_id   text,
    host        text,
    pid         integer,
    stop        text,                     -- who asked the owner to stop, and why
    PRIMARY KEY (namespace, lock)
) WITH (fillfactor = 50);

CREATE TABLE onerun_skip (
    namespace text        COLLATE "C" NOT NULL,
    job       text        COLLATE "C" NOT NULL,
    key       text        COLLATE "C" NOT NULL,  -- '': unkeyed
    reason    text        COLLATE "C" NOT NULL,
    holder    text        COLLATE "C" NOT NULL,
    detail    text        NOT NULL,
    count     bigint      NOT NULL,
    first_at  timestamptz NOT NULL,
    last_at   timestamptz NOT NULL
) WITH (fillfactor = 50);

-- By a hash of the holder, who for a paused job is what its operator wrote: that may be
-- longer than what an index takes.
CREATE UNIQUE INDEX onerun_skip_key ON onerun_skip (namespace, job, key, reason, hashtextextended(holder, 0));

-- A row without approved_by ('') is a request, which lifts nothing.
CREATE TABLE onerun_approval (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id         text        COLLATE "C" NOT NULL,
    status         text        COLLATE "C" NOT NULL,  -- what its author saw
    attempt        integer     NOT NULL,
    reason         text        NOT NULL,
    approved_by    text        NOT NULL,
    created_at     timestamptz NOT NULL,
    expires_at     timestamptz,
    used_at        timestamptz,
    used_attempt   integer,                           -- with used_at; 0: outdated without use
    requested_by   text,
    request_reason text,
    requested_at   timestamptz
);

CREATE UNIQUE INDEX onerun_approval_open ON onerun_approval (run_id) WHERE used_at IS NULL;
CREATE INDEX onerun_approval_run ON onerun_approval (run_id, attempt);

-- Append-only. Each row's hash covers the one before it in its chain ('operator', or a
-- run's own id), so that a row which was changed or removed shows.
CREATE TABLE onerun_event (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL,
    event     text        NOT NULL,
    namespace text        COLLATE "C" NOT NULL,
    job       text        COLLATE "C" NOT NULL,
    key       text        COLLATE "C",
    run_id    text        COLLATE "C",
    by        text,                      -- the operator; NULL: the machine
    terminal  text,                      -- where the operator sat
    reason    text,
    detail    text,
    chain     text        COLLATE "C" NOT NULL,
    hash      text        NOT NULL
);

CREATE INDEX onerun_event_run   ON onerun_event (run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX onerun_event_chain ON onerun_event (chain, id);
CREATE INDEX onerun_event_job   ON onerun_event (namespace, job, id) WHERE run_id IS NULL;

CREATE TABLE onerun_job (
    namespace    text        COLLATE "C" NOT NULL,
    job          text        COLLATE "C" NOT NULL,
    paused_at    timestamptz,
    paused_by    text,
    pause_reason text,
    PRIMARY KEY (namespace, job)
);

-- What stays of a key whose run was pruned: it can't run again.
CREATE TABLE onerun_tombstone (
    namespace     text        COLLATE "C" NOT NULL,
    key           text        COLLATE "C" NOT NULL,
    run_id        text        COLLATE "C" NOT NULL,
    job           text        COLLATE "C" NOT NULL,
    partition     text        COLLATE "C" NOT NULL,
    business_date text,
    lock          text        COLLATE "C" NOT NULL,
    status        text        COLLATE "C" NOT NULL,
    attempt       integer     NOT NULL,
    token         bigint      NOT NULL,
    two_people    boolean     NOT NULL,
    on_crash      text        NOT NULL,
    scheduled_at  timestamptz,
    started_at    timestamptz NOT NULL,
    finished_at   timestamptz,
    pruned_at     timestamptz NOT NULL,
    PRIMARY KEY (namespace, key)
);

CREATE INDEX onerun_tombstone_run ON onerun_tombstone (run_id);
CREATE INDEX onerun_tombstone_job ON onerun_tombstone (namespace, job, started_at, run_id);
CREATE INDEX onerun_tombstone_all ON onerun_tombstone (namespace, started_at, run_id);

-- Units of work that are done once ever.
CREATE TABLE onerun_item (
    namespace   text        COLLATE "C" NOT NULL,
    job         text        COLLATE "C" NOT NULL,
    item        text        COLLATE "C" NOT NULL,
    state       text        COLLATE "C" NOT NULL CHECK (state IN ('started', 'done', 'failed')),
    payload     text        COLLATE "C",  -- what stands for its content; NULL: not told
    tries       integer     NOT NULL,     -- how often it was begun
    run_id      text        COLLATE "C" NOT NULL,
    attempt     integer     NOT NULL,     -- of the last try
    owner       text        COLLATE "C" NOT NULL,
    on_crash    text        NOT NULL,
    host        text,
    machine     text,
    boot        text,
    pid_ns      bigint,
    time_ns     bigint,
    pid         integer,                  -- the process that does it; NULL: the attempt as a whole
    start_ticks bigint,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    exit_code   integer,
    signal      text,
    error       text,
    PRIMARY KEY (namespace, job, item)
);

-- Listings, newest first: of a job, of all, and of what is not done, however much is.
CREATE INDEX onerun_item_job  ON onerun_item (namespace, job, started_at, item);
CREATE INDEX onerun_item_all  ON onerun_item (namespace, started_at, job, item);
CREATE INDEX onerun_item_open ON onerun_item (namespace, started_at, job, item) WHERE state <> 'done';

CREATE VIEW batch_job_run AS
SELECT coalesce(key, job) AS job_key, status, started_at, finished_at, worker_id, error AS error_message
FROM onerun_run;
