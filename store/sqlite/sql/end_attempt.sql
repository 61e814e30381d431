-- Ends the attempt that its owner, or whoever proved its owner dead, expects to be
-- RUNNING, or whoever delivers its end late expects to be FAILED (?13): ?1 run,
-- ?2 attempt, ?3 owner.
UPDATE onerun_attempt
SET status = ?4, reason = ?5, exit_code = ?6, signal = ?7, error = ?8,
    processed = coalesce(?9, processed), failed = coalesce(?10, failed), finished_at = ?11, void = ?12, closed_by = ?14
WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND status = ?13
RETURNING retries, backoff_min, backoff_max, retry_lost,
    (SELECT key IS NOT NULL FROM onerun_run r WHERE r.run_id = onerun_attempt.run_id)
