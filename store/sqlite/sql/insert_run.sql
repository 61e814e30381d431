INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt,
    scheduled_at, started_at, finished_at, token, worker_id, host, pid, stale_after, version_label, labels)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
