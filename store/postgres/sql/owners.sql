-- The end of each migration. Whoever it was that migrated, the store belongs to whom it
-- belonged to before: a role that runs jobs as the tables' owner, or with the rights that it was
-- granted, goes on to do so. Of a store that was just made nothing is to be changed.
DO $$
DECLARE
    v_owner name := (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'onerun_lock'::regclass);
    v_space oid := (SELECT relnamespace FROM pg_class WHERE oid = 'onerun_lock'::regclass);
    o       record;
    g       record;
BEGIN
    FOR o IN
        SELECT 'TABLE ' || quote_ident(relname) AS what FROM pg_class
        WHERE relnamespace = v_space AND relkind = 'r' AND relname LIKE 'onerun\_%' AND pg_get_userbyid(relowner) <> v_owner
        UNION ALL
        SELECT 'FUNCTION ' || p.oid::regprocedure FROM pg_proc p
        WHERE pronamespace = v_space AND proname LIKE 'onerun\_%' AND pg_get_userbyid(proowner) <> v_owner
    LOOP
        EXECUTE format('ALTER %s OWNER TO %I', o.what, v_owner);
    END LOOP;
    -- Where functions aren't everybody's, who may claim may use the others.
    FOR g IN
        SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS whom
        FROM pg_proc p, aclexplode(p.proacl) a
        WHERE p.pronamespace = v_space AND p.proname = 'onerun_claim' AND a.grantee <> p.proowner AND a.privilege_type = 'EXECUTE'
    LOOP
        FOR o IN SELECT p.oid::regprocedure AS what FROM pg_proc p WHERE pronamespace = v_space AND proname LIKE 'onerun\_%' LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', o.what, g.whom);
        END LOOP;
    END LOOP;
END
$$;
