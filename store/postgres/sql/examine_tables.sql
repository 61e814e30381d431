-- What the role may do with the tables and views of schema $1, whether it owns them, and
-- whether everybody may write to them.
SELECT c.relname::text, c.relkind IN ('r', 'p') AS is_table, pg_has_role(c.relowner, 'USAGE') AS owned,
       array_remove(ARRAY[CASE WHEN has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END, CASE WHEN has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
           CASE WHEN has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END, CASE WHEN has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END], NULL) AS may,
       EXISTS (SELECT 1 FROM aclexplode(c.relacl) a WHERE a.grantee = 0 AND a.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')) AS open
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v') AND (c.relname LIKE 'onerun\_%' OR c.relname = 'batch_job_run')
ORDER BY 1
