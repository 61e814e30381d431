-- The columns that scanRun reads, with the last attempt of each run.
SELECT r.run_id, r.namespace, r.job, coalesce(r.partition, ''), coalesce(r.business_date, ''), r.lock, r.status,
       r.attempt, r.scheduled_at, r.started_at, r.finished_at, r.next_retry_at, coalesce(r.token, 0),
       r.stale_after, coalesce(r.reason, ''), r.exit_code, coalesce(r.signal, ''), coalesce(r.error, ''),
       r.processed, r.failed, coalesce(r.version_label, ''), coalesce(r.labels, ''),
       coalesce(a.owner, ''), coalesce(a.worker_id, ''), coalesce(a.host, ''), coalesce(a.machine, ''),
       coalesce(a.boot, ''), coalesce(a.pid_ns, 0), coalesce(a.time_ns, 0), coalesce(a.pid, 0),
       coalesce(a.start_ticks, 0), coalesce(a.in_process, 0), coalesce(a.lock_dir, ''), coalesce(a.on_crash, ''),
       coalesce(a.two_people, 0)
FROM onerun_run r
LEFT JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
