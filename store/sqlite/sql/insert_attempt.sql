INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, lock_dir, worker_id, host, machine, boot,
    pid_ns, time_ns, pid, start_ticks, in_process, on_crash, stale_after, retries, backoff_min, backoff_max, retry_lost,
    started_at, two_people)
VALUES (?1, ?2, 'RUNNING', ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
