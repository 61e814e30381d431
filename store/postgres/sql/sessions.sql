-- The sessions that call themselves $1. A role sees all of its own ones and, without
-- pg_read_all_stats, of those of others little but that they are there.
SELECT pid, coalesce(state, ''), round(extract(epoch FROM state_change) * 1000000)::bigint,
       coalesce(wait_event_type || '/' || wait_event, ''), CASE WHEN state IS NULL THEN '' ELSE coalesce(query, '') END
FROM pg_stat_activity
WHERE application_name = $1 AND pid <> pg_backend_pid()
ORDER BY backend_start NULLS LAST, pid
