-- A further attempt of a run that is still as it was read: ?1 run, ?2 and ?3 the
-- status and attempt that were read.
UPDATE onerun_run
SET status = 'RUNNING', attempt = attempt + 1, lock = ?4, started_at = ?5, token = ?6, worker_id = ?7,
    host = ?8, pid = ?9, stale_after = ?10, version_label = ?11, labels = ?12,
    finished_at = NULL, next_retry_at = NULL, reason = NULL, exit_code = NULL, signal = NULL, error = NULL,
    processed = NULL, failed = NULL
WHERE run_id = ?1 AND status = ?2 AND attempt = ?3
