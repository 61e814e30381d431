-- Those that wait for a lock are told by a notification on this channel, with NAMESPACE/LOCK
-- as its payload, that they may look again. The server serializes the commits that notify,
-- so none does unless somebody is known to wait.
CREATE OR REPLACE FUNCTION onerun_channel() RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT 'onerun_' || 'onerun_waiter'::regclass::oid
$$;

CREATE OR REPLACE FUNCTION onerun_wake(p_namespace text, p_lock text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_notify(onerun_channel(), p_namespace || '/' || p_lock);
END
$$;

-- Those who stand in the line for a lock before an owner, or before one who has no place. One
-- whose key runs under another lock just now can't use this one, and is passed by meanwhile.
CREATE OR REPLACE FUNCTION onerun_ahead(p_namespace text, p_lock text, p_owner text, p_now timestamptz) RETURNS SETOF onerun_waiter
LANGUAGE sql STABLE AS $$
    SELECT w.* FROM onerun_waiter w
    WHERE w.namespace = p_namespace AND w.lock = p_lock AND w.fifo AND w.owner <> p_owner AND w.expires_at > p_now
      AND w.expires_at <= p_now + interval '15 seconds'  -- else the clock went back since, and its waiter, if it lives, writes it again
      AND w.number < coalesce((
          SELECT m.number FROM onerun_waiter m
          WHERE m.owner = p_owner AND m.namespace = p_namespace AND m.lock = p_lock AND m.fifo AND m.expires_at > p_now), 9223372036854775807)
      AND NOT EXISTS (
          SELECT 1 FROM onerun_run r WHERE r.namespace = w.namespace AND r.key = w.key AND r.status = 'RUNNING' AND r.lock <> w.lock)
    ORDER BY w.number
$$;

-- The first of them, as the holder that a claim in line is refused for; NULL: there is none.
CREATE OR REPLACE FUNCTION onerun_first(p_namespace text, p_lock text, p_owner text, p_now timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('name', coalesce(key, job, split_part(lock, '/', 2)), 'worker_id', worker_id, 'host', host, 'pid', pid,
        'since_us', onerun_us(since), 'detail', CASE count(*) OVER ()
            WHEN 1 THEN 'a start with --order fifo waits in line before this one'
            ELSE count(*) OVER () || ' starts with --order fifo wait in line before this one' END)
    FROM onerun_ahead(p_namespace, p_lock, p_owner, p_now) ORDER BY number LIMIT 1
$$;

-- Lets a waiter be known under a lock, for ten seconds from now at least: its row lasts fifteen,
-- and is written again when less than ten are left. It keeps its number, unless
-- it was silent for longer; true: it has a new one. What silent ones left behind goes then.
CREATE OR REPLACE FUNCTION onerun_stand(p jsonb, p_lock text, p_fifo boolean, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    p_ns    text := p->>'namespace';
    p_owner text := p->>'owner';
    v_until timestamptz;
BEGIN
    SELECT expires_at INTO v_until FROM onerun_waiter WHERE owner = p_owner AND namespace = p_ns AND lock = p_lock AND fifo = p_fifo;
    IF v_until > p_now + interval '10 seconds' AND v_until <= p_now + interval '15 seconds' THEN
        RETURN false;
    ELSIF v_until > p_now THEN
        UPDATE onerun_waiter SET expires_at = p_now + interval '15 seconds' WHERE owner = p_owner AND namespace = p_ns AND lock = p_lock;
        RETURN false;
    END IF;
    DELETE FROM onerun_waiter WHERE owner = p_owner AND namespace = p_ns AND lock = p_lock;
    -- Nobody is waited for here, so that this can't be in a circle of those who wait.
    DELETE FROM onerun_waiter WHERE (owner, namespace, lock) IN (
        SELECT owner, namespace, lock FROM onerun_waiter WHERE expires_at < p_now - interval '1 minute' FOR UPDATE SKIP LOCKED);
    INSERT INTO onerun_waiter (owner, namespace, lock, fifo, job, key, since, expires_at, worker_id, host, pid)
    VALUES (p_owner, p_ns, p_lock, p_fifo, p->>'job', p->>'key', p_now, p_now + interval '15 seconds',
        p->>'worker_id', p->'worker'->>'host', (p->'worker'->>'pid')::integer)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;

-- Whether a claim might be granted, or be refused otherwise than because of somebody who works
-- or stands in line before it: its turn has come then. If not, it is known as a waiter from
-- here on. Nothing is waited for, and no row of a lock is taken: this is asked again and
-- again. The answer has a result:
--
--	turn     claim now
--	wait     and in how many microseconds what is in the way can be over by itself, and the
--	         lock under which the key runs, if it is another
--	schema   it is of a program with another version of the schema
--
-- p is the claim; waited: it has been told to wait before; last: it won't ask again soon.
CREATE OR REPLACE FUNCTION onerun_await(p jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET lock_timeout TO '10s' AS $$
DECLARE
    p_ns    text := p->>'namespace';
    p_job   text := p->>'job';
    p_key   text := p->>'key';
    p_lock  text := p->>'lock';
    p_owner text := p->>'owner';
    p_fifo  boolean := (p->>'fifo')::boolean;
    v_now   timestamptz := clock_timestamp();
    r       onerun_run;
    waits   boolean := false;
    answer  boolean := false;  -- there is one, by what comes before the lock in the claim table
    fresh   boolean := false;
    other   text;
    v_until timestamptz;
BEGIN
    IF (p->>'version')::integer <> onerun_version() THEN
        RETURN jsonb_build_object('result', 'schema', 'version', onerun_version());
    END IF;
    IF p_fifo THEN -- it has its place before it looks, so that whoever comes later sees it
        fresh := onerun_stand(p, p_lock, true, v_now);
    END IF;
    IF p_key IS NOT NULL THEN
        SELECT * INTO r FROM onerun_run WHERE namespace = p_ns AND key = p_key;
        IF r.status = 'RUNNING' THEN
            SELECT expires_at INTO v_until FROM onerun_lock
            WHERE namespace = p_ns AND lock = r.lock AND run_id = r.run_id AND owner <> p_owner AND expires_at > v_now;
            waits := FOUND;
            answer := NOT FOUND;
            other := nullif(r.lock, p_lock);
        ELSIF r.run_id IS NOT NULL THEN
            answer := (r.status IN ('SUCCEEDED', 'SKIPPED') OR r.next_retry_at IS NULL OR v_now < r.next_retry_at) AND NOT EXISTS (
                SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL AND a.approved_by <> ''
                  AND a.status = r.status AND a.attempt = r.attempt AND (a.expires_at IS NULL OR v_now < a.expires_at));
        ELSE
            answer := EXISTS (SELECT 1 FROM onerun_tombstone WHERE key = p_key AND (namespace = p_ns) IS TRUE);
        END IF;
    END IF;
    IF NOT waits AND NOT answer AND p_job IS NOT NULL THEN
        answer := EXISTS (SELECT 1 FROM onerun_job WHERE namespace = p_ns AND job = p_job AND paused_at IS NOT NULL);
    END IF;
    IF NOT waits AND NOT answer THEN
        SELECT expires_at INTO v_until FROM onerun_lock
        WHERE namespace = p_ns AND lock = p_lock AND owner <> p_owner AND expires_at > v_now;
        waits := FOUND;
        IF NOT waits AND p_fifo THEN
            SELECT expires_at INTO v_until FROM onerun_ahead(p_ns, p_lock, p_owner, v_now) LIMIT 1;
            waits := FOUND;
        END IF;
    END IF;
    IF waits AND NOT (p->>'last')::boolean THEN
        IF NOT p_fifo THEN
            PERFORM onerun_stand(p, p_lock, false, v_now);
        END IF;
        IF other IS NOT NULL THEN
            PERFORM onerun_stand(p, other, false, v_now);
        END IF;
    ELSIF (p->>'waited')::boolean THEN
        DELETE FROM onerun_waiter WHERE owner = p_owner AND namespace = p_ns AND NOT fifo;
    END IF;
    IF fresh THEN -- a place in line outlasts the server's crash; the rest is said again
        PERFORM onerun_durably();
    ELSE
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF NOT waits THEN
        RETURN jsonb_build_object('result', 'turn');
    END IF;
    RETURN jsonb_build_object('result', 'wait', 'wake_us', onerun_us(v_until) - onerun_us(clock_timestamp()), 'other', other);
END
$$;

-- Forgets a waiter, and tells those who stood behind it. Whether it had a place in line.
CREATE OR REPLACE FUNCTION onerun_leave(p_namespace text, p_lock text, p_owner text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET lock_timeout TO '10s' AS $$
DECLARE
    placed boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    placed := EXISTS (SELECT 1 FROM onerun_waiter WHERE owner = p_owner AND namespace = p_namespace AND lock = p_lock AND fifo);
    DELETE FROM onerun_waiter WHERE owner = p_owner AND namespace = p_namespace;
    IF placed AND EXISTS (SELECT 1 FROM onerun_waiter WHERE namespace = p_namespace AND lock = p_lock AND expires_at > clock_timestamp()) THEN
        PERFORM onerun_wake(p_namespace, p_lock);
    END IF;
    RETURN placed;
END
$$;
