-- How many connections are in use, and how many there may be: of all, of this database, of
-- this role. A limit of -1 is none.
SELECT coalesce((SELECT sum(numbackends) FROM pg_stat_database), 0)::bigint,
       (SELECT numbackends::bigint FROM pg_stat_database d WHERE d.datid = b.oid),
       b.datconnlimit::bigint,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid = r.oid),
       r.rolconnlimit::bigint,
       r.rolsuper
FROM pg_database b, pg_roles r
WHERE b.datname = current_database() AND r.rolname = current_user
