-- Extends a lease, if it is still what its owner thinks, by its TTL from now. NULL: it
-- isn't. A late beat is safe, because every grant changes the owner.
CREATE OR REPLACE FUNCTION onerun_heartbeat(p jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET lock_timeout TO '10s' AS $$
DECLARE
    answer jsonb;
BEGIN
    PERFORM onerun_durably();
    UPDATE onerun_lock l
    SET expires_at = clock_timestamp() + l.ttl * interval '1 microsecond'
    WHERE l.namespace = p->>'namespace' AND l.lock = p->>'lock' AND l.owner = p->>'owner' AND l.token = (p->>'token')::bigint
      AND l.run_id IS NOT DISTINCT FROM p->>'run_id' AND l.attempt IS NOT DISTINCT FROM (p->>'attempt')::integer
      AND (l.run_id IS NULL OR EXISTS (
          SELECT 1 FROM onerun_run r JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
          WHERE r.run_id = l.run_id AND r.attempt = l.attempt AND r.status = 'RUNNING' AND a.status = 'RUNNING'))
    RETURNING jsonb_build_object('now_us', onerun_us(l.expires_at) - l.ttl, 'stop', l.stop) INTO answer;
    RETURN answer;
END
$$;

-- Records the end of a lease's attempt and frees the lock.
CREATE OR REPLACE FUNCTION onerun_finish(p jsonb, p_output text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET lock_timeout TO '10s' AS $$
DECLARE
    l     onerun_lock;
    a     onerun_attempt;
    v_now timestamptz;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM onerun_durably();
    END IF;
    -- As it is after the wait. A transaction that the owner has fenced is not waited for: it may be one that nobody will
    -- end, and it keeps others from the lock all the same.
    SELECT * INTO l FROM onerun_lock WHERE namespace = p->>'namespace' AND lock = p->>'lock' FOR NO KEY UPDATE;
    v_now := clock_timestamp();
    IF l.owner = p->>'owner' AND l.token = (p->>'token')::bigint
        AND l.run_id IS NOT DISTINCT FROM p->>'run_id' AND l.attempt IS NOT DISTINCT FROM (p->>'attempt')::integer THEN
        IF l.run_id IS NULL THEN
            PERFORM onerun_free(l.namespace, l.lock, l.owner);
            RETURN jsonb_build_object('result', 'done');
        END IF;
        IF onerun_close(l.run_id, l.attempt, l.owner, 'RUNNING', p->'outcome', NULL, v_now) THEN
            PERFORM onerun_free(l.namespace, l.lock, l.owner);
            IF p_output <> '' THEN
                PERFORM onerun_keep_output(l.run_id, l.attempt, p->'output', p_output, v_now);
            END IF;
            RETURN jsonb_build_object('result', 'done');
        END IF;
    END IF;
    -- Done before, or too late?
    IF p->>'run_id' IS NULL THEN
        RETURN jsonb_build_object('result', CASE WHEN l.owner IS NULL AND l.token = (p->>'token')::bigint THEN 'already' ELSE 'lost' END);
    END IF;
    SELECT * INTO a FROM onerun_attempt
    WHERE run_id = p->>'run_id' AND attempt = (p->>'attempt')::integer AND owner = p->>'owner' AND token = (p->>'token')::bigint;
    IF a.status = p->'outcome'->>'status' AND a.reason IS NOT DISTINCT FROM p->'outcome'->>'reason' THEN
        RETURN jsonb_build_object('result', 'already');
    END IF;
    RETURN jsonb_build_object('result', 'lost', 'status', a.status, 'token', CASE WHEN l.owner IS NOT NULL THEN l.token END);
END
$$;

-- Records how far a lease's attempt has come. It doesn't wait for the disk: the numbers are
-- written again with the end.
CREATE OR REPLACE FUNCTION onerun_report(p jsonb, p_output text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET lock_timeout TO '10s' AS $$
DECLARE
    v_run     text := p->>'run_id';
    v_attempt integer := (p->>'attempt')::integer;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM 1 FROM onerun_attempt WHERE run_id = v_run AND attempt = v_attempt AND owner = p->>'owner'
        AND token = (p->>'token')::bigint AND status = 'RUNNING';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE onerun_run
    SET processed = coalesce((p->>'processed')::bigint, processed), failed = coalesce((p->>'failed')::bigint, failed)
    WHERE run_id = v_run AND attempt = v_attempt AND namespace = p->>'namespace' AND lock = p->>'lock' AND status = 'RUNNING';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE onerun_attempt
    SET processed = coalesce((p->>'processed')::bigint, processed), failed = coalesce((p->>'failed')::bigint, failed)
    WHERE run_id = v_run AND attempt = v_attempt AND owner = p->>'owner' AND status = 'RUNNING';
    IF p_output <> '' THEN
        PERFORM onerun_keep_output(v_run, v_attempt, p->'output', p_output, clock_timestamp());
    END IF;
    RETURN true;
END
$$;
