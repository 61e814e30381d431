-- Everything that decides most claims, by index look-ups: the lock's last token,
-- the run of the key, or what was left of it when it was pruned, the RUNNING run under the lock, and the job's pause. The runs
-- are read in full only if there are any, which a new key under a free lock has not.
-- ?1 namespace, ?2 lock, ?3 key, ?4 job.
SELECT (SELECT token FROM onerun_lock WHERE namespace = ?1 AND lock = ?2),
       (SELECT run_id FROM onerun_run WHERE namespace = ?1 AND key = ?3),
       (SELECT run_id FROM onerun_tombstone WHERE namespace = ?1 AND key = ?3),
       (SELECT run_id FROM onerun_run WHERE namespace = ?1 AND lock = ?2 AND status = 'RUNNING'),
       (SELECT paused_at FROM onerun_job WHERE namespace = ?1 AND job = ?4)
