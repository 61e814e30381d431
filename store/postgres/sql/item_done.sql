-- Marks an item of a run's job as done, if it wasn't begun or has failed. It waits for another
-- transaction that has just marked it.
INSERT INTO {schema}.onerun_item AS i (namespace, job, item, state, payload, tries, run_id, attempt, owner, on_crash, started_at, finished_at)
SELECT r.namespace, r.job, $4::text, 'done', nullif($5::text, ''), 1, r.run_id, $3::integer, $6::text, 'auto', clock_timestamp(), clock_timestamp()
FROM {schema}.onerun_run r WHERE r.namespace = $1::text AND r.run_id = $2::text
ON CONFLICT (namespace, job, item) DO UPDATE
SET state = excluded.state, payload = coalesce(excluded.payload, i.payload), tries = i.tries + 1, run_id = excluded.run_id, attempt = excluded.attempt,
    owner = excluded.owner, on_crash = excluded.on_crash, host = NULL, machine = NULL, boot = NULL, pid_ns = NULL, time_ns = NULL, pid = NULL,
    start_ticks = NULL, started_at = excluded.started_at, finished_at = excluded.finished_at, exit_code = NULL, signal = NULL, error = NULL
WHERE i.state = 'failed' AND (i.payload IS NULL OR excluded.payload IS NULL OR i.payload = excluded.payload)
RETURNING true
