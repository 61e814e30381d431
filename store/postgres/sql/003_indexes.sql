-- Version 3: indexes that a claim can't mistake for one that leads it to its rows. A plan may be
-- made when the tables are empty, or have never been analyzed, and is kept by a connection. As
-- far as the server knows then, an index that begins with the namespace, or the state, is as good
-- as the right one; and a claim that uses it reads all that a namespace has. What is RUNNING is
-- found in onerun_run_running, and a key's tombstone by its key.
DROP INDEX onerun_run_status, onerun_run_job;
CREATE INDEX onerun_run_status ON onerun_run (status, namespace, started_at, run_id) WHERE status <> 'RUNNING';
CREATE INDEX onerun_run_job ON onerun_run (namespace, job, status, started_at, run_id) WHERE status <> 'RUNNING';
ALTER TABLE onerun_tombstone DROP CONSTRAINT onerun_tombstone_pkey, ADD PRIMARY KEY (key, namespace);
