-- The schema of the store on MySQL and MariaDB, version 1. It is documented in
-- docs/stores/mysql.md and meant to be read by people and reports: read as much as you like,
-- write nothing.
--
-- Times are microseconds since 1970-01-01 UTC, so that no session's zone matters; durations are
-- microseconds. Names are VARBINARY: compared byte by byte, spaces at the end included, as on
-- every other store. What only has to be readable is utf8mb4.
--
-- The keys are longer than the other formats of a row have room for, whichever the server's own is.
--
-- Neither server has an index over some of the rows. Where at most one row of a kind may be, a
-- column of its own is set in that row alone (running_lock, running_run, open_run), and unique.
--
-- A change of the schema can't be undone here when it fails halfway, so each statement is one
-- that may be executed again.

CREATE TABLE IF NOT EXISTS onerun_schema (
    id      TINYINT NOT NULL PRIMARY KEY,  -- one row
    version INT     NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS onerun_run (
    run_id        VARBINARY(255) NOT NULL PRIMARY KEY,
    namespace     VARBINARY(400) NOT NULL,
    job           VARBINARY(400) NOT NULL,
    `partition`   VARBINARY(400),          -- NULL: unkeyed
    `key`         VARBINARY(810),          -- JOB:PARTITION, NULL: unkeyed
    business_date VARBINARY(32),
    `lock`        VARBINARY(820) NOT NULL,
    running_lock  VARBINARY(820),          -- the lock, while RUNNING
    status        VARBINARY(16)  NOT NULL,
    attempt       INT            NOT NULL, -- the last one; 0: cancelled in advance
    scheduled_at  BIGINT,
    started_at    BIGINT         NOT NULL,
    finished_at   BIGINT,
    next_retry_at BIGINT,
    token         BIGINT,
    worker_id     TEXT,
    host          TEXT,
    pid           INT,
    stale_after   BIGINT,                  -- NULL: reckoned from history
    reason        VARBINARY(32),
    exit_code     INT,
    `signal`      TEXT,
    error         TEXT,
    processed     BIGINT,
    failed        BIGINT,
    version_label TEXT,
    labels        MEDIUMTEXT,              -- a JSON object, NULL: none
    UNIQUE KEY onerun_run_key (namespace, `key`),
    UNIQUE KEY onerun_run_running (namespace, running_lock),
    KEY onerun_run_status (status, namespace, started_at, run_id),
    KEY onerun_run_job (namespace, job, status, started_at, run_id),
    KEY onerun_run_retry (namespace, next_retry_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS onerun_attempt (
    run_id      VARBINARY(255) NOT NULL,
    attempt     INT            NOT NULL,
    status      VARBINARY(16)  NOT NULL,
    running_run VARBINARY(255),               -- the run, while RUNNING
    void        BOOLEAN        NOT NULL DEFAULT FALSE,  -- claimed, but its job never started
    closed_by   VARBINARY(16),                -- NULL: its owner; machine; operator
    owner       VARBINARY(255) NOT NULL,
    token       BIGINT         NOT NULL,      -- 0: it ran without a claim
    `lock`      VARBINARY(820) NOT NULL,
    worker_id   TEXT,
    host        TEXT,
    machine     TEXT,
    boot        TEXT,
    pid_ns      BIGINT,
    time_ns     BIGINT,
    pid         INT,
    start_ticks BIGINT,
    in_process  BOOLEAN        NOT NULL DEFAULT FALSE,  -- the work is a function of the worker's process
    ttl         BIGINT         NOT NULL,      -- its lease
    on_crash    VARBINARY(16)  NOT NULL,
    two_people  BOOLEAN        NOT NULL DEFAULT FALSE,
    stale_after BIGINT,
    retries     INT            NOT NULL,
    backoff_min BIGINT         NOT NULL,
    backoff_max BIGINT         NOT NULL,
    retry_lost  BOOLEAN        NOT NULL,
    started_at  BIGINT         NOT NULL,
    finished_at BIGINT,
    reason      VARBINARY(32),
    exit_code   INT,
    `signal`    TEXT,
    error       TEXT,
    processed   BIGINT,
    failed      BIGINT,
    late        MEDIUMTEXT,                   -- a JSON object: an end that came too late
    PRIMARY KEY (run_id, attempt),
    UNIQUE KEY onerun_attempt_running (running_run)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What an attempt printed. A table of its own, so that a run's row stays short.
CREATE TABLE IF NOT EXISTS onerun_output (
    run_id      VARBINARY(255) NOT NULL,
    attempt     INT            NOT NULL,
    at          BIGINT         NOT NULL,  -- when it was recorded
    bytes_total BIGINT         NOT NULL,  -- how many bytes were printed
    truncated   BOOLEAN        NOT NULL,  -- text lacks the beginning of them
    text        MEDIUMBLOB     NOT NULL,  -- UTF-8
    PRIMARY KEY (run_id, attempt)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- A lock outlives its owners: the token is the last one that was given out. Every heartbeat
-- writes its row anew; there is no index beside the primary key, whose gaps others could wait for.
CREATE TABLE IF NOT EXISTS onerun_lock (
    namespace   VARBINARY(400) NOT NULL,
    `lock`      VARBINARY(820) NOT NULL,
    token       BIGINT         NOT NULL,
    owner       VARBINARY(255),  -- NULL: free
    run_id      VARBINARY(255),  -- NULL: a lock alone
    attempt     INT,
    expires_at  BIGINT,
    ttl         BIGINT,
    on_crash    VARBINARY(16),
    acquired_at BIGINT,
    worker_id   TEXT,
    host        TEXT,
    pid         INT,
    stop        TEXT,            -- who asked the owner to stop, and why
    fenced      BOOLEAN        NOT NULL DEFAULT FALSE,  -- a transaction has made sure of it since it was granted
    PRIMARY KEY (namespace, `lock`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What a transaction of a job's own holds while it makes sure of its lease (a shared lock), and
-- what whoever takes that lease away must have (an exclusive one). A table of its own, since a
-- heartbeat writes onerun_lock.
CREATE TABLE IF NOT EXISTS onerun_fence (
    namespace VARBINARY(400) NOT NULL,
    `lock`    VARBINARY(820) NOT NULL,
    PRIMARY KEY (namespace, `lock`)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS onerun_skip (
    namespace   VARBINARY(400) NOT NULL,
    job         VARBINARY(400) NOT NULL,
    `key`       VARBINARY(810) NOT NULL,  -- '': unkeyed
    reason      VARBINARY(32)  NOT NULL,
    holder_hash VARBINARY(32)  NOT NULL,  -- SHA-256 of holder, which can be what an operator wrote
    holder      MEDIUMTEXT     NOT NULL,
    detail      MEDIUMTEXT     NOT NULL,
    count       BIGINT         NOT NULL,
    first_at    BIGINT         NOT NULL,
    last_at     BIGINT         NOT NULL,
    PRIMARY KEY (namespace, job, `key`, reason, holder_hash)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- A row without approved_by ('') is a request, which lifts nothing.
CREATE TABLE IF NOT EXISTS onerun_approval (
    id             BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    run_id         VARBINARY(255) NOT NULL,
    open_run       VARBINARY(255),           -- the run, while used_at is NULL
    status         VARBINARY(16)  NOT NULL,  -- what its author saw
    attempt        INT            NOT NULL,
    reason         TEXT           NOT NULL,
    approved_by    TEXT           NOT NULL,
    created_at     BIGINT         NOT NULL,
    expires_at     BIGINT,
    used_at        BIGINT,
    used_attempt   INT,                      -- with used_at; 0: outdated without use
    requested_by   TEXT,
    request_reason TEXT,
    requested_at   BIGINT,
    UNIQUE KEY onerun_approval_open (open_run),
    KEY onerun_approval_run (run_id, attempt)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Append-only. Each row's hash covers the one before it in its chain ('operator', or a
-- run's own id), so that a row which was changed or removed shows.
CREATE TABLE IF NOT EXISTS onerun_event (
    id        BIGINT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at        BIGINT         NOT NULL,
    event     VARBINARY(64)  NOT NULL,
    namespace VARBINARY(400) NOT NULL,
    job       VARBINARY(400) NOT NULL,
    `key`     VARBINARY(810),
    run_id    VARBINARY(255),
    `by`      TEXT,                    -- the operator; NULL: the machine
    terminal  TEXT,                    -- where the operator sat
    reason    TEXT,
    detail    TEXT,
    chain     VARBINARY(255) NOT NULL,
    hash      VARBINARY(64)  NOT NULL,
    KEY onerun_event_run (run_id, id),
    KEY onerun_event_chain (chain, id),
    KEY onerun_event_job (namespace, job, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- The end of the chain of what people decided, for which whoever writes to it queues.
CREATE TABLE IF NOT EXISTS onerun_chain (
    chain VARBINARY(255) NOT NULL PRIMARY KEY
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

CREATE TABLE IF NOT EXISTS onerun_job (
    namespace    VARBINARY(400) NOT NULL,
    job          VARBINARY(400) NOT NULL,
    paused_at    BIGINT,
    paused_by    TEXT,
    pause_reason TEXT,
    PRIMARY KEY (namespace, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What stays of a key whose run was pruned: it can't run again.
CREATE TABLE IF NOT EXISTS onerun_tombstone (
    namespace     VARBINARY(400) NOT NULL,
    `key`         VARBINARY(810) NOT NULL,
    run_id        VARBINARY(255) NOT NULL,
    job           VARBINARY(400) NOT NULL,
    `partition`   VARBINARY(400) NOT NULL,
    business_date VARBINARY(32),
    `lock`        VARBINARY(820) NOT NULL,
    status        VARBINARY(16)  NOT NULL,
    attempt       INT            NOT NULL,
    token         BIGINT         NOT NULL,
    two_people    BOOLEAN        NOT NULL,
    on_crash      VARBINARY(16)  NOT NULL,
    scheduled_at  BIGINT,
    started_at    BIGINT         NOT NULL,
    finished_at   BIGINT,
    pruned_at     BIGINT         NOT NULL,
    PRIMARY KEY (namespace, `key`),
    KEY onerun_tombstone_run (run_id),
    KEY onerun_tombstone_job (namespace, job, started_at, run_id),
    KEY onerun_tombstone_all (namespace, started_at, run_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- Units of work that are done once ever.
CREATE TABLE IF NOT EXISTS onerun_item (
    namespace   VARBINARY(400) NOT NULL,
    job         VARBINARY(400) NOT NULL,
    item        VARBINARY(800) NOT NULL,
    state       VARBINARY(16)  NOT NULL,
    payload     BLOB,                     -- what stands for its content, as bytes; NULL: not told
    tries       INT            NOT NULL,  -- how often it was begun
    run_id      VARBINARY(255) NOT NULL,
    attempt     INT            NOT NULL,  -- of the last try
    owner       VARBINARY(255) NOT NULL,
    on_crash    VARBINARY(16)  NOT NULL,
    host        TEXT,
    machine     TEXT,
    boot        TEXT,
    pid_ns      BIGINT,
    time_ns     BIGINT,
    pid         INT,                      -- the process that does it; NULL: the attempt as a whole
    start_ticks BIGINT,
    started_at  BIGINT         NOT NULL,
    finished_at BIGINT,
    exit_code   INT,
    `signal`    TEXT,
    error       TEXT,
    PRIMARY KEY (namespace, job, item),
    KEY onerun_item_job (namespace, job, started_at, item),
    KEY onerun_item_all (namespace, state, started_at, job, item)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

INSERT INTO onerun_chain (chain) VALUES ('operator') ON DUPLICATE KEY UPDATE chain = VALUES(chain);

CREATE OR REPLACE SQL SECURITY INVOKER VIEW batch_job_run AS
SELECT CONVERT(COALESCE(`key`, job) USING utf8mb4) AS job_key, CONVERT(status USING utf8mb4) AS status,
    TIMESTAMPADD(MICROSECOND, started_at, TIMESTAMP '1970-01-01 00:00:00') AS started_at,
    TIMESTAMPADD(MICROSECOND, finished_at, TIMESTAMP '1970-01-01 00:00:00') AS finished_at, worker_id, error AS error_message
FROM onerun_run;
