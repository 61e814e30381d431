INSERT INTO onerun_lock (namespace, lock, token, owner, run_id, attempt)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (namespace, lock) DO UPDATE
SET token = excluded.token, owner = excluded.owner, run_id = excluded.run_id, attempt = excluded.attempt
