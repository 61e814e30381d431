-- What a program of schema version 1 left: its runs until Monday, the last report's failed.
CREATE TEMP TABLE old (id, job, date, status, code, day);
INSERT INTO old VALUES
    ('01994000-0000-7000-8000-000000000001', 'daily-settlement', '2026-09-12', 'SUCCEEDED', 0, 1789315200),
    ('01994000-0000-7000-8000-000000000002', 'report',           '2026-09-12', 'SUCCEEDED', 0, 1789322400),
    ('01994000-0000-7000-8000-000000000003', 'daily-settlement', '2026-09-13', 'SUCCEEDED', 0, 1789401600),
    ('01994000-0000-7000-8000-000000000004', 'report',           '2026-09-13', 'FAILED',    3, 1789408800);
INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt, started_at, finished_at, token, worker_id, host, pid, reason, exit_code)
SELECT id, 'default', job, date, job || ':' || date, date, 'job/' || job, status, 1, day * 1000000, day * 1000000 + 5000000, day * 1000, 'old/7', 'old', 7, iif(code, 'exit', NULL), code FROM old;
INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, lock_dir, worker_id, host, boot, pid, in_process, on_crash, retries, backoff_min, backoff_max, retry_lost, started_at, finished_at, reason, exit_code)
SELECT id, 1, status, 'owner of ' || id, day * 1000, 'job/' || job, '/var/lib/onerun/locks', 'old/7', 'old', 'an earlier one', 7, 0, 'auto', 0, 0, 0, 0, day * 1000000, day * 1000000 + 5000000, iif(code, 'exit', NULL), code FROM old;
INSERT INTO onerun_lock (namespace, lock, token) SELECT 'default', 'job/' || job, max(day) * 1000 FROM old GROUP BY job;
