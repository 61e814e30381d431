-- Version 2: what years of operation need. Additions only, but for two indexes: a program
-- of version 1 that is at work while this happens can record its job's end.

-- A rerun that two people decide; who closed an attempt; an end that came too late.
ALTER TABLE onerun_attempt ADD COLUMN two_people INTEGER NOT NULL DEFAULT 0;
ALTER TABLE onerun_attempt ADD COLUMN closed_by TEXT;  -- NULL: its owner; machine; operator
ALTER TABLE onerun_attempt ADD COLUMN late TEXT;       -- a JSON object
UPDATE onerun_attempt
SET closed_by = CASE WHEN EXISTS (SELECT 1 FROM onerun_event e WHERE e.run_id = onerun_attempt.run_id AND e.event = 'resolved') THEN 'operator' ELSE 'machine' END
WHERE status = 'FAILED' AND reason IN ('owner_died', 'lease_expired');

-- A row without approved_by ('') is a request, which lifts nothing.
ALTER TABLE onerun_approval ADD COLUMN requested_by TEXT;
ALTER TABLE onerun_approval ADD COLUMN request_reason TEXT;
ALTER TABLE onerun_approval ADD COLUMN requested_at INTEGER;
CREATE INDEX onerun_approval_run ON onerun_approval (run_id);

ALTER TABLE onerun_event ADD COLUMN terminal TEXT;     -- where the operator sat

-- What stays of a key whose run was pruned: it can't run again.
CREATE TABLE onerun_tombstone (
    namespace     TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    run_id        TEXT    NOT NULL,
    job           TEXT    NOT NULL,
    partition     TEXT    NOT NULL,
    business_date TEXT,
    lock          TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    attempt       INTEGER NOT NULL,
    token         INTEGER NOT NULL,
    two_people    INTEGER NOT NULL,
    on_crash      TEXT    NOT NULL,
    scheduled_at  INTEGER,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER,
    pruned_at     INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;

-- A program of version 1 that is at work while this happens knows of no tombstones.
CREATE TRIGGER onerun_run_buried BEFORE INSERT ON onerun_run
WHEN NEW.key IS NOT NULL AND EXISTS (SELECT 1 FROM onerun_tombstone WHERE namespace = NEW.namespace AND key = NEW.key)
BEGIN
    SELECT RAISE(ABORT, 'the key was pruned, and can only be rerun');
END;

CREATE INDEX onerun_tombstone_run ON onerun_tombstone (run_id);

-- Pages of a listing, by state and by job and state, each read from its index alone
-- whatever else the ledger holds.
DROP INDEX onerun_run_status;
DROP INDEX onerun_run_job;
CREATE INDEX onerun_run_status ON onerun_run (status, started_at, namespace);
CREATE INDEX onerun_run_job    ON onerun_run (namespace, job, status, started_at);
CREATE INDEX onerun_run_retry  ON onerun_run (namespace, next_retry_at) WHERE next_retry_at IS NOT NULL;
