-- Takes away what version 2 of the schema added (002_operating.sql), under whatever runs.
BEGIN IMMEDIATE;
DROP TRIGGER onerun_run_buried;
DROP TABLE onerun_tombstone;
DROP INDEX onerun_approval_run;
DROP INDEX onerun_run_retry;
DROP INDEX onerun_run_status;
DROP INDEX onerun_run_job;
CREATE INDEX onerun_run_status ON onerun_run (status, started_at);
CREATE INDEX onerun_run_job    ON onerun_run (namespace, job, started_at);
ALTER TABLE onerun_attempt DROP COLUMN two_people;
ALTER TABLE onerun_attempt DROP COLUMN closed_by;
ALTER TABLE onerun_attempt DROP COLUMN late;
ALTER TABLE onerun_approval DROP COLUMN requested_by;
ALTER TABLE onerun_approval DROP COLUMN request_reason;
ALTER TABLE onerun_approval DROP COLUMN requested_at;
ALTER TABLE onerun_event DROP COLUMN terminal;
PRAGMA user_version = 829554689;
COMMIT;
