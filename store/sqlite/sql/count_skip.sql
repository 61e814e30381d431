INSERT INTO onerun_skip (namespace, job, key, reason, holder, detail, count, first_at, last_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?7)
ON CONFLICT (namespace, job, key, reason, holder) DO UPDATE
SET count = count + 1, last_at = max(last_at, excluded.last_at), detail = excluded.detail
RETURNING count
