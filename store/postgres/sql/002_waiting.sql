-- Version 2: who waits for a lock. A claim that waits has a row under its lock, and one more
-- under the lock that its key runs under meanwhile, if that is another; so whoever frees a
-- lock knows whether anybody is to be woken. Nobody is asked to be tidy: a row counts until
-- expires_at, and its waiter is heard of again before.
CREATE TABLE onerun_waiter (
    owner      text        COLLATE "C" NOT NULL,  -- the claim's
    namespace  text        COLLATE "C" NOT NULL,
    lock       text        COLLATE "C" NOT NULL,
    number     bigint      GENERATED ALWAYS AS IDENTITY,  -- in the order of coming
    fifo       boolean     NOT NULL,                      -- a place in line; else it is to be woken, and no more
    job        text        COLLATE "C",           -- NULL: it wants the lock alone
    key        text        COLLATE "C",
    since      timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    worker_id  text,
    host       text,
    pid        integer,
    PRIMARY KEY (owner, namespace, lock)
) WITH (fillfactor = 50);

CREATE INDEX onerun_waiter_line ON onerun_waiter (namespace, lock, number);

-- Whoever may use the locks may wait for them: a role that does its work with the rights that
-- it was once granted goes on to do so.
DO $$
DECLARE
    g record;
BEGIN
    FOR g IN
        SELECT a.privilege_type AS what, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS whom
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = 'onerun_lock'::regclass AND a.grantee <> c.relowner AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    LOOP
        EXECUTE format('GRANT %s ON onerun_waiter TO %s', g.what, g.whom);
    END LOOP;
END
$$;

-- A function whose result changes can't be replaced; its next version is made with the others.
DROP FUNCTION IF EXISTS onerun_settle(onerun_lock, jsonb, timestamptz);
