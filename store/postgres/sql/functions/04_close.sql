-- When the next execution after a failed one is due; NULL: there is none. This is
-- Policy.NextRetry of the library, whose words tell what it does; a test compares the two.
CREATE OR REPLACE FUNCTION onerun_next_retry(p_now timestamptz, p_failures bigint, p_reason text, p_retries integer,
    p_least bigint, p_most bigint, p_lost boolean, p_jitter double precision) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    least_wait bigint := greatest(p_least, 0);
    most_wait  bigint := greatest(p_most, p_least, 0);
    wait       bigint := greatest(p_least, 0);
    i          bigint := 1;
BEGIN
    IF p_reason IN ('not_found', 'not_executable', 'stopped', 'lease_lost') OR p_reason = 'lease_expired' AND NOT p_lost
        OR p_failures < 1 OR p_failures > p_retries THEN
        RETURN NULL;
    END IF;
    WHILE i < p_failures AND wait < most_wait AND wait > 0 LOOP
        wait := CASE WHEN wait > most_wait / 2 THEN most_wait ELSE wait * 2 END;
        i := i + 1;
    END LOOP;
    wait := greatest(least_wait, wait / 2 + floor(p_jitter * (wait / 2))::bigint);
    RETURN p_now + least(wait, most_wait) * interval '1 microsecond';
END
$$;

-- Ends an attempt and its run, if both are still in the state p_was and the attempt is that
-- owner's. The next retry is reckoned by the policy of the attempt's own owner. The run's
-- row is written first, as everywhere: so nobody waits crosswise.
CREATE OR REPLACE FUNCTION onerun_close(p_run text, p_attempt integer, p_owner text, p_was text, o jsonb, p_by text, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    a          onerun_attempt;
    keyed      boolean;
    v_status   text := o->>'status';
    v_reason   text := o->>'reason';
    v_code     integer := (o->>'exit_code')::integer;
    v_signal   text := o->>'signal';
    v_error    text := o->>'error';
    v_done     bigint := (o->>'processed')::bigint;
    v_failed   bigint := (o->>'failed')::bigint;
    v_finished timestamptz := coalesce(onerun_at((o->>'finished_us')::bigint), p_now);
    retry_at   timestamptz;
BEGIN
    IF v_status = 'FAILED' THEN
        SELECT * INTO a FROM onerun_attempt WHERE run_id = p_run AND attempt = p_attempt AND owner = p_owner AND status = p_was;
        SELECT key IS NOT NULL INTO keyed FROM onerun_run WHERE run_id = p_run;
        IF keyed AND (o->>'void')::boolean THEN
            retry_at := p_now; -- it never started, so it may start at once and costs no retry
        ELSIF keyed AND a.retries > 0 THEN
            retry_at := onerun_next_retry(p_now, (SELECT count(*) FROM onerun_attempt f
                    WHERE f.run_id = p_run AND f.status = 'FAILED' AND NOT f.void AND f.attempt <> p_attempt) + 1,
                v_reason, a.retries, a.backoff_min, a.backoff_max, a.retry_lost, random());
        END IF;
    END IF;
    UPDATE onerun_run
    SET status = v_status, reason = v_reason, exit_code = v_code, signal = v_signal, error = v_error,
        processed = coalesce(v_done, processed), failed = coalesce(v_failed, failed), finished_at = v_finished, next_retry_at = retry_at
    WHERE run_id = p_run AND attempt = p_attempt AND status = p_was
      AND EXISTS (SELECT 1 FROM onerun_attempt t WHERE t.run_id = p_run AND t.attempt = p_attempt AND t.owner = p_owner AND t.status = p_was);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE onerun_attempt
    SET status = v_status, reason = v_reason, exit_code = v_code, signal = v_signal, error = v_error,
        processed = coalesce(v_done, processed), failed = coalesce(v_failed, failed), finished_at = v_finished,
        void = (o->>'void')::boolean, closed_by = p_by
    WHERE run_id = p_run AND attempt = p_attempt AND owner = p_owner AND status = p_was;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'attempt % of run % changed meanwhile', p_attempt, p_run USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN true;
END
$$;

-- Frees a lock, if it is still that owner's, and wakes those who wait for it.
CREATE OR REPLACE FUNCTION onerun_free(p_namespace text, p_lock text, p_owner text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE onerun_lock
    SET owner = NULL, run_id = NULL, attempt = NULL, expires_at = NULL, ttl = NULL, on_crash = NULL, acquired_at = NULL,
        worker_id = NULL, host = NULL, pid = NULL, stop = NULL
    WHERE namespace = p_namespace AND lock = p_lock AND owner = p_owner;
    IF EXISTS (SELECT 1 FROM onerun_waiter WHERE namespace = p_namespace AND lock = p_lock AND expires_at > clock_timestamp()) THEN
        PERFORM onerun_wake(p_namespace, p_lock);
    END IF;
END
$$;

-- Keeps what an attempt printed.
CREATE OR REPLACE FUNCTION onerun_keep_output(p_run text, p_attempt integer, o jsonb, p_text text, p_now timestamptz) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO onerun_output (run_id, attempt, at, bytes_total, truncated, text)
    VALUES (p_run, p_attempt, p_now, (o->>'total')::bigint, (o->>'truncated')::boolean, p_text)
    ON CONFLICT (run_id, attempt) DO UPDATE
    SET at = excluded.at, bytes_total = excluded.bytes_total, truncated = excluded.truncated, text = excluded.text
$$;

-- An acknowledged claim, heartbeat or end must outlast the server's crash, whatever the
-- session's default is: a lease that the server forgot could be given to another owner.
CREATE OR REPLACE FUNCTION onerun_durably() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
