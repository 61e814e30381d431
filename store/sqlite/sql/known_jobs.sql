-- ?1 namespace, ?2 what the names begin with, ?3 what is greater than all of those.
-- One step of the index a job, however many runs each has.
WITH RECURSIVE known (job) AS (
    SELECT min(job) FROM onerun_run WHERE namespace = ?1 AND job >= ?2 AND job < ?3
    UNION ALL
    SELECT (SELECT min(job) FROM onerun_run WHERE namespace = ?1 AND job > known.job AND job < ?3)
    FROM known WHERE known.job IS NOT NULL
)
SELECT job FROM known WHERE job IS NOT NULL
UNION
SELECT job FROM onerun_job WHERE namespace = ?1 AND job >= ?2 AND job < ?3
ORDER BY job LIMIT 1000
