-- The schema of the embedded store, version 1. It is documented in
-- docs/stores/sqlite.md and meant to be read by people and reports: read as much as
-- you like, write nothing.
--
-- Times are microseconds since 1970-01-01 UTC, durations are microseconds. Text is
-- compared byte by byte (SQLite's BINARY collation).

CREATE TABLE onerun_run (
    run_id        TEXT    NOT NULL PRIMARY KEY,
    namespace     TEXT    NOT NULL,
    job           TEXT    NOT NULL,
    partition     TEXT,                -- NULL: unkeyed
    key           TEXT,                -- JOB:PARTITION, NULL: unkeyed
    business_date TEXT,
    lock          TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'SKIPPED')),
    attempt       INTEGER NOT NULL,    -- the last one; 0: cancelled in advance
    scheduled_at  INTEGER,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER,
    next_retry_at INTEGER,
    token         INTEGER,
    worker_id     TEXT,
    host          TEXT,
    pid           INTEGER,
    stale_after   INTEGER,             -- NULL: reckoned from history
    reason        TEXT,
    exit_code     INTEGER,
    signal        TEXT,
    error         TEXT,
    processed     INTEGER,
    failed        INTEGER,
    version_label TEXT,
    labels        TEXT                 -- a JSON object, NULL: none
) WITHOUT ROWID;

CREATE UNIQUE INDEX onerun_run_key     ON onerun_run (namespace, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX onerun_run_running ON onerun_run (namespace, lock) WHERE status = 'RUNNING';
CREATE INDEX onerun_run_status         ON onerun_run (status, started_at);
CREATE INDEX onerun_run_job            ON onerun_run (namespace, job, started_at);

CREATE TABLE onerun_attempt (
    run_id      TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    status      TEXT    NOT NULL,
    void        INTEGER NOT NULL DEFAULT 0,  -- claimed, but its job never started
    owner       TEXT    NOT NULL,
    token       INTEGER NOT NULL,
    lock        TEXT    NOT NULL,
    lock_dir    TEXT    NOT NULL,            -- where its lock file is
    worker_id   TEXT,
    host        TEXT,
    machine     TEXT,
    boot        TEXT,
    pid_ns      INTEGER,
    time_ns     INTEGER,
    pid         INTEGER,
    start_ticks INTEGER,
    in_process  INTEGER NOT NULL,            -- the work is a function of the worker's process
    on_crash    TEXT    NOT NULL,
    stale_after INTEGER,
    retries     INTEGER NOT NULL,
    backoff_min INTEGER NOT NULL,
    backoff_max INTEGER NOT NULL,
    retry_lost  INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    reason      TEXT,
    exit_code   INTEGER,
    signal      TEXT,
    error       TEXT,
    processed   INTEGER,
    failed      INTEGER,
    PRIMARY KEY (run_id, attempt)
) WITHOUT ROWID;

CREATE UNIQUE INDEX onerun_attempt_running ON onerun_attempt (run_id) WHERE status = 'RUNNING';

-- A lock outlives its owners: the token is the last one that was given out.
CREATE TABLE onerun_lock (
    namespace TEXT    NOT NULL,
    lock      TEXT    NOT NULL,
    token     INTEGER NOT NULL,
    owner     TEXT,                    -- NULL: free
    run_id    TEXT,
    attempt   INTEGER,
    PRIMARY KEY (namespace, lock)
) WITHOUT ROWID;

CREATE TABLE onerun_skip (
    namespace TEXT    NOT NULL,
    job       TEXT    NOT NULL,
    key       TEXT    NOT NULL,        -- '': unkeyed
    reason    TEXT    NOT NULL,
    holder    TEXT    NOT NULL,
    detail    TEXT    NOT NULL,
    count     INTEGER NOT NULL,
    first_at  INTEGER NOT NULL,
    last_at   INTEGER NOT NULL,
    PRIMARY KEY (namespace, job, key, reason, holder)
) WITHOUT ROWID;

CREATE TABLE onerun_approval (
    id           INTEGER PRIMARY KEY,
    run_id       TEXT    NOT NULL,
    status       TEXT    NOT NULL,     -- what its approver saw
    attempt      INTEGER NOT NULL,
    reason       TEXT    NOT NULL,
    approved_by  TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    used_at      INTEGER,
    used_attempt INTEGER               -- with used_at; 0: outdated without use
);

CREATE UNIQUE INDEX onerun_approval_open ON onerun_approval (run_id) WHERE used_at IS NULL;

-- Append-only. Each row's hash covers the one before it in its chain ('operator', or
-- a run's own id), so that a row which was changed or removed shows.
CREATE TABLE onerun_event (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    event     TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    job       TEXT    NOT NULL,
    key       TEXT,
    run_id    TEXT,
    by        TEXT,                    -- the operator; NULL: the machine
    reason    TEXT,
    detail    TEXT,
    chain     TEXT    NOT NULL,
    hash      TEXT    NOT NULL
);

CREATE INDEX onerun_event_run   ON onerun_event (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX onerun_event_chain ON onerun_event (chain, id);

CREATE TABLE onerun_job (
    namespace    TEXT    NOT NULL,
    job          TEXT    NOT NULL,
    paused_at    INTEGER,
    paused_by    TEXT,
    pause_reason TEXT,
    PRIMARY KEY (namespace, job)
) WITHOUT ROWID;

CREATE VIEW batch_job_run AS
SELECT coalesce(key, job) AS job_key,
       status,
       strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch')  AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', finished_at / 1000000.0, 'unixepoch') AS finished_at,
       worker_id,
       error AS error_message
FROM onerun_run;
