-- The functions of schema $1: their text, their own search path, and whether the role may
-- call them.
SELECT p.proname::text, p.prosrc, coalesce((SELECT substr(c, 13) FROM unnest(p.proconfig) c WHERE c LIKE 'search\_path=%'), '') AS path,
       has_function_privilege(p.oid, 'EXECUTE') AS may
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1 AND p.proname LIKE 'onerun\_%'
ORDER BY 1
