-- Runs as the program reads them: with the last attempt, the lease, and what a reader is
-- told besides. For the program alone: its columns change with it. Nothing in it may be
-- volatile, or else the server would make the whole view to give one page of it.
CREATE OR REPLACE VIEW onerun_look AS
SELECT r.run_id, r.namespace, r.job, r.partition, r.key, r.business_date, r.lock, r.status, r.attempt, r.started_at, r.next_retry_at,
       onerun_us(r.scheduled_at) AS scheduled_us, onerun_us(r.started_at) AS started_us, onerun_us(r.finished_at) AS finished_us,
       onerun_us(r.next_retry_at) AS retry_us, r.token, r.stale_after, r.reason, r.exit_code, r.signal, r.error, r.processed, r.failed,
       r.version_label, r.labels, a.owner, a.worker_id, a.host, a.machine, a.boot, a.pid_ns, a.time_ns, a.pid, a.start_ticks,
       a.on_crash, a.two_people, a.retries, a.backoff_min, a.backoff_max, a.retry_lost,
       onerun_us(l.expires_at) AS expires_us,
       onerun_us(statement_timestamp()) AS now_us,
       -- How often it was refused. With all reasons named, the second is a few look-ups and
       -- no walk over the job's skips.
       CASE WHEN r.key IS NOT NULL THEN (
           SELECT coalesce(sum(s.count), 0)::bigint FROM onerun_skip s
           WHERE s.namespace = r.namespace AND s.job = r.job AND s.key = r.key)
       ELSE (
           SELECT coalesce(sum(s.count), 0)::bigint FROM onerun_skip s
           WHERE s.namespace = r.namespace AND s.job = r.job AND s.key = '' AND s.reason IN ('running', 'locked', 'stale')
             AND hashtextextended(s.holder, 0) = hashtextextended(r.run_id || '/' || r.attempt, 0) AND s.holder = r.run_id || '/' || r.attempt)
       END AS skips,
       -- The longest of the job's last successes, from which stale-after is reckoned.
       CASE WHEN r.status = 'RUNNING' AND r.stale_after IS NULL THEN (
           SELECT coalesce(max(onerun_us(u.finished_at) - onerun_us(u.started_at)), 0) FROM (
               SELECT s.started_at, s.finished_at FROM onerun_run s
               WHERE s.namespace = r.namespace AND s.job = r.job AND s.status = 'SUCCEEDED'
               ORDER BY s.started_at DESC, s.run_id DESC LIMIT 50) u)
       END AS usual,
       CASE WHEN r.status = 'RUNNING' THEN (
           SELECT count(*) FROM onerun_attempt f WHERE f.run_id = r.run_id AND f.status = 'FAILED' AND NOT f.void)
       END AS failures
FROM onerun_run r
LEFT JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
LEFT JOIN onerun_lock l ON r.status = 'RUNNING' AND l.namespace = r.namespace AND l.lock = r.lock AND l.owner = a.owner;
