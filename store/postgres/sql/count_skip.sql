INSERT INTO onerun_skip AS s (namespace, job, key, reason, holder, detail, count, first_at, last_at)
VALUES ($1, $2, $3, $4, $5, $6, 1, onerun_at($7), onerun_at($7))
ON CONFLICT (namespace, job, key, reason, hashtextextended(holder, 0)) DO UPDATE
SET count = s.count + 1, last_at = greatest(s.last_at, excluded.last_at), detail = excluded.detail
RETURNING s.count
