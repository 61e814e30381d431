-- The store's tables that a crash empties: they are not in the write-ahead log.
SELECT coalesce(string_agg(c.relname, ', ' ORDER BY c.relname), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname LIKE 'onerun\_%' AND c.relkind IN ('r', 'p') AND c.relpersistence <> 'p'
