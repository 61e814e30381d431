-- The schemas of this database that have a store, whether the role may look into them or not.
SELECT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'onerun_schema' AND c.relkind = 'r' ORDER BY 1
