-- What the role may do besides, and whether everybody may make things in schema $1.
SELECT array_remove(ARRAY[CASE WHEN r.rolsuper THEN 'SUPERUSER' END, CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END, CASE WHEN r.rolcreatedb THEN 'CREATEDB' END,
           CASE WHEN r.rolreplication THEN 'REPLICATION' END, CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END], NULL) AS more,
       has_schema_privilege('public', n.oid, 'CREATE') AS open
FROM pg_roles r, pg_namespace n
WHERE r.rolname = current_user AND n.nspname = $1
