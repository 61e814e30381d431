-- Where the store is: $1 is the schema that the URL names, or empty. Found is where there is
-- one, free where one could be made. Of a search path the first schema that has a store
-- counts, before the first that may be written: a second store would exclude nobody.
SELECT (SELECT s FROM unnest(path) WITH ORDINALITY u (s, i) WHERE to_regclass(quote_ident(s) || '.onerun_schema') IS NOT NULL ORDER BY i LIMIT 1) AS found,
       (SELECT s FROM unnest(path) WITH ORDINALITY u (s, i) WHERE has_schema_privilege(s, 'CREATE') ORDER BY i LIMIT 1) AS free,
       CASE WHEN $1 <> '' THEN NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1) ELSE false END AS missing,
       array_to_string(path, ', ') AS path,
       pg_encoding_to_char(encoding) AS encoding,
       current_setting('server_version_num')::integer AS server
FROM (SELECT CASE WHEN $1 = '' THEN current_schemas(false)::text[] ELSE array(SELECT nspname::text FROM pg_namespace WHERE nspname = $1) END AS path) p,
     pg_database
WHERE datname = current_database()
