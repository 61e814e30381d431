-- An attempt that was never claimed: it had neither lease nor token, and its owner is nobody's
-- any more. It is closed right after, by the function that closes every attempt.
INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, worker_id, host, machine, in_process, ttl, on_crash, two_people,
    stale_after, retries, backoff_min, backoff_max, retry_lost, started_at)
SELECT $1, $2, 'FAILED', $3, 0, $4, $5, $6, $7, $8, $9, $10,
    $11 OR EXISTS (SELECT 1 FROM onerun_attempt b WHERE b.run_id = $1 AND b.two_people), -- what was once asked of its reruns stays
    $12, $13, $14, $15, $16, onerun_at($17)
