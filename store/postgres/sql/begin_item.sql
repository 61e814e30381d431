-- Begins an item, or begins again one that is still as it was read: $18 is its owner then,
-- empty if there was no such item. Whoever calls this has decided, in the same
-- transaction, that it may.
INSERT INTO onerun_item AS i (namespace, job, item, state, payload, tries, run_id, attempt, owner, on_crash,
    host, machine, boot, pid_ns, time_ns, pid, start_ticks, started_at)
VALUES ($1, $2, $3, 'started', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, onerun_at($17))
ON CONFLICT (namespace, job, item) DO UPDATE
SET state = excluded.state, payload = excluded.payload, tries = excluded.tries, run_id = excluded.run_id, attempt = excluded.attempt,
    owner = excluded.owner, on_crash = excluded.on_crash, host = excluded.host, machine = excluded.machine, boot = excluded.boot,
    pid_ns = excluded.pid_ns, time_ns = excluded.time_ns, pid = excluded.pid, start_ticks = excluded.start_ticks,
    started_at = excluded.started_at, finished_at = NULL, exit_code = NULL, signal = NULL, error = NULL
WHERE i.owner = $18
