-- The tombstone of a keyed run: ?1 the run id, ?2 the time. A key has one.
INSERT OR REPLACE INTO onerun_tombstone (namespace, key, run_id, job, partition, business_date, lock, status, attempt, token,
    two_people, on_crash, scheduled_at, started_at, finished_at, pruned_at)
SELECT r.namespace, r.key, r.run_id, r.job, r.partition, r.business_date, r.lock, r.status, r.attempt, coalesce(r.token, 0),
    coalesce(a.two_people, 0), coalesce(a.on_crash, 'auto'), r.scheduled_at, r.started_at, r.finished_at, ?2
FROM onerun_run r LEFT JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
WHERE r.run_id = ?1
