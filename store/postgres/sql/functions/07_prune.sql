-- Removes runs that SUCCEEDED with all that is kept of them, if they are still what they
-- were when they were chosen; a key leaves a tombstone unless it is to be forgotten. Rows
-- that somebody works with are passed over. Decisions of operators stay, since their chain
-- of events is one for all.
CREATE OR REPLACE FUNCTION onerun_remove(p_ids text[], p_forget boolean) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    began  timestamptz := clock_timestamp();
    ids    text[];
    unkeyed text[];
    keyed  bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true); -- a crash can only bring back what was there
    ids := array(SELECT run_id FROM onerun_run WHERE run_id = ANY (p_ids) AND status = 'SUCCEEDED' ORDER BY run_id FOR UPDATE SKIP LOCKED);
    -- A statement of its own, with the rows in hand: whoever approves locks them first.
    ids := array(SELECT i FROM unnest(ids) i WHERE NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = i AND a.used_at IS NULL));
    SELECT count(*) FILTER (WHERE key IS NOT NULL), array_agg(run_id) FILTER (WHERE key IS NULL)
    INTO keyed, unkeyed FROM onerun_run WHERE run_id = ANY (ids);
    IF NOT p_forget THEN
        INSERT INTO onerun_tombstone (namespace, key, run_id, job, partition, business_date, lock, status, attempt, token,
            two_people, on_crash, scheduled_at, started_at, finished_at, pruned_at)
        SELECT r.namespace, r.key, r.run_id, r.job, r.partition, r.business_date, r.lock, r.status, r.attempt, coalesce(r.token, 0),
            coalesce(a.two_people, false), coalesce(a.on_crash, 'auto'), r.scheduled_at, r.started_at, r.finished_at, began
        FROM onerun_run r LEFT JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
        WHERE r.run_id = ANY (ids) AND r.key IS NOT NULL;
        -- The token stands in the tombstone, until that goes. A lock that somebody has in
        -- hand stays.
        DELETE FROM onerun_lock WHERE (namespace, lock) IN (
            SELECT l.namespace, l.lock FROM onerun_tombstone t
            JOIN onerun_lock l ON l.namespace = t.namespace AND l.lock = 'key/' || t.key
            WHERE t.run_id = ANY (ids) AND l.owner IS NULL AND l.token <= t.token FOR UPDATE OF l SKIP LOCKED);
    END IF;
    DELETE FROM onerun_skip s USING onerun_run r
    WHERE r.run_id = ANY (ids) AND r.key IS NOT NULL AND s.namespace = r.namespace AND s.job = r.job AND s.key = r.key;
    DELETE FROM onerun_skip s USING onerun_run r
    WHERE r.run_id = ANY (unkeyed) AND s.namespace = r.namespace AND s.job = r.job AND s.key = ''
      AND s.reason IN ('running', 'locked', 'stale') AND s.holder = r.run_id || '/1'
      AND hashtextextended(s.holder, 0) = hashtextextended(r.run_id || '/1', 0);
    DELETE FROM onerun_run WHERE run_id = ANY (ids);
    DELETE FROM onerun_attempt WHERE run_id = ANY (ids);
    DELETE FROM onerun_output WHERE run_id = ANY (ids);
    DELETE FROM onerun_approval WHERE run_id = ANY (ids);
    DELETE FROM onerun_event WHERE chain = ANY (ids);
    RETURN jsonb_build_object('runs', cardinality(ids), 'keys', CASE WHEN p_forget THEN 0 ELSE keyed END,
        'forgotten', CASE WHEN p_forget THEN keyed ELSE 0 END, 'now_us', onerun_us(began));
END
$$;

-- Gives locks the tokens back that only tombstones know: the next owner's has to be larger,
-- whatever the clock says.
CREATE OR REPLACE FUNCTION onerun_keep_tokens(p_namespace text, p_keys text[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    INSERT INTO onerun_lock AS l (namespace, lock, token)
    SELECT t.namespace, t.lock, max(t.token) FROM onerun_tombstone t
    WHERE t.namespace = p_namespace AND t.key = ANY (p_keys)
    GROUP BY t.namespace, t.lock ORDER BY t.namespace, t.lock
    ON CONFLICT (namespace, lock) DO UPDATE SET token = greatest(l.token, excluded.token)
$$;
