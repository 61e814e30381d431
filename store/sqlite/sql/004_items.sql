-- Version 4: units of work that are done once ever. An addition only: a program of version
-- 3 that is at work while this happens can record its job's end.

CREATE TABLE onerun_item (
    namespace   TEXT    NOT NULL,
    job         TEXT    NOT NULL,
    item        TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('started', 'done', 'failed')),
    payload     TEXT,                -- what stands for its content; NULL: not told
    tries       INTEGER NOT NULL,    -- how often it was begun
    run_id      TEXT    NOT NULL,    -- of the last try
    attempt     INTEGER NOT NULL,
    owner       TEXT    NOT NULL,    -- random, of the last try
    run_owner   TEXT    NOT NULL,    -- that of the attempt
    on_crash    TEXT    NOT NULL,
    host        TEXT,
    machine     TEXT,
    boot        TEXT,
    pid_ns      INTEGER,
    time_ns     INTEGER,
    pid         INTEGER,             -- the process that does it; NULL: the attempt as a whole
    start_ticks INTEGER,
    pgrp        INTEGER,             -- the process group of whoever began it
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    exit_code   INTEGER,
    signal      TEXT,
    error       TEXT,
    PRIMARY KEY (namespace, job, item)
) WITHOUT ROWID;

-- Listings, newest first: of a job, of all, and of what is not done, however much is.
CREATE INDEX onerun_item_job  ON onerun_item (namespace, job, started_at);
CREATE INDEX onerun_item_all  ON onerun_item (namespace, started_at);
CREATE INDEX onerun_item_open ON onerun_item (namespace, started_at) WHERE state <> 'done';
