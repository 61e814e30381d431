-- Version 5: small texts that programs share. There is room in each page for the next version of
-- a row, and no index has one of the columns that change.
CREATE TABLE onerun_note (
    namespace  text        COLLATE "C" NOT NULL,
    name       text        COLLATE "C" NOT NULL,
    version    bigint      NOT NULL,             -- grows with each change
    text       text        NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 50);

-- As with onerun_waiter, whoever may use the locks may use the notes.
DO $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT a.privilege_type AS what, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS whom
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'onerun_lock'::regclass AND a.grantee <> c.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON onerun_note TO %s', g.what, g.whom);
    END LOOP;
END
$$;
