-- Servers that follow this one, and could take its place. Whoever takes a copy, or follows
-- the changes of some tables, can't. Of what the role may not see, all but that there is one
-- is NULL.
SELECT coalesce(nullif(r.application_name, ''), host(r.client_addr), 'on this host') AS name, r.state, coalesce(r.sync_state, '') AS sync
FROM pg_stat_replication r
WHERE r.state IS DISTINCT FROM 'backup'
  AND NOT EXISTS (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')
ORDER BY 1
