UPDATE onerun_run
SET status = ?3, reason = ?4, exit_code = ?5, signal = ?6, error = ?7, processed = coalesce(?8, processed), failed = coalesce(?9, failed),
    finished_at = ?10, next_retry_at = ?11
WHERE run_id = ?1 AND attempt = ?2 AND status = ?12
