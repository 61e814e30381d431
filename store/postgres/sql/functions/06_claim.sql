-- A run as it stands in the way, in the words of the library's Holder.
CREATE OR REPLACE FUNCTION onerun_holder(r onerun_run, p_detail text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('run_id', r.run_id, 'name', coalesce(r.key, r.job), 'attempt', r.attempt, 'status', r.status,
        'worker_id', r.worker_id, 'host', r.host, 'pid', r.pid,
        'since_us', onerun_us(CASE WHEN r.status = 'RUNNING' THEN r.started_at ELSE coalesce(r.finished_at, r.started_at) END),
        'detail', coalesce(p_detail, ''))
$$;

-- Holder.ID of the library.
CREATE OR REPLACE FUNCTION onerun_holder_id(h jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN h->>'run_id' <> '' THEN (h->>'run_id') || '/' || (h->>'attempt')
        WHEN (h->>'pid')::integer <> 0 THEN h->>'worker_id'
        ELSE h->>'detail' END
$$;

-- Holder.String of the library.
CREATE OR REPLACE FUNCTION onerun_holder_text(h jsonb) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT regexp_replace(regexp_replace(btrim(concat(
        h->>'name',
        ' by ' || nullif(h->>'worker_id', ''),
        CASE WHEN (h->>'pid')::integer <> 0 AND h->>'worker_id' <> (h->>'host') || '/' || (h->>'pid') THEN ' (' || (h->>'host') || '/' || (h->>'pid') || ')' END,
        ' since ' || onerun_rfc3339(onerun_at((h->>'since_us')::bigint)),
        ', run ' || nullif(h->>'run_id', '') || ' attempt ' || (h->>'attempt'),
        ': ' || nullif(h->>'detail', ''))), '\s+', ' ', 'g'), '[[:cntrl:]]', U&'\FFFD', 'g')
$$;

-- Why the claim of a lock's owner is over, as far as one can know: its host says that its
-- work is (p->'dead', by owner), or its lease is. NULL: it isn't.
CREATE OR REPLACE FUNCTION onerun_over(l onerun_lock, p jsonb, p_now timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN p->'dead' ? l.owner AND l.owner IS DISTINCT FROM p->>'held_owner'
            THEN coalesce(p->'dead'->l.owner->>'evidence', 'its owner is proven dead')
        WHEN l.expires_at <= p_now THEN 'its lease ran out at ' || onerun_rfc3339(l.expires_at) END
$$;

-- Frees a lock whose owner's claim is over, and closes the owner's run, unless the owner's
-- own policy is manual; a start that came to nothing is closed whatever its policy. Who
-- stands in the way on the claim's host (held_owner) is not dead, and keeps what it has.
-- The answer is the run as it is then; NULL: none was closed.
CREATE OR REPLACE FUNCTION onerun_settle(l onerun_lock, p jsonb, p_now timestamptz) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    dead     jsonb := p->'dead'->l.owner;
    void     boolean := coalesce((dead->>'void')::boolean, false);
    evidence text := onerun_over(l, p, p_now);
    reason   text := 'lease_expired';
    words    text := 'its lease ran out';
    closed   jsonb;
BEGIN
    IF evidence IS NULL OR l.owner = p->>'held_owner' OR NOT void AND l.on_crash IS DISTINCT FROM 'auto' THEN
        RETURN NULL;
    END IF;
    IF dead IS NOT NULL THEN
        reason := 'owner_died';
        words := dead->>'error';
    END IF;
    IF onerun_close(l.run_id, l.attempt, l.owner, 'RUNNING',
        jsonb_build_object('status', 'FAILED', 'reason', reason, 'error', words, 'void', void), 'machine', p_now) THEN
        SELECT to_jsonb(v) || jsonb_build_object('evidence', evidence) INTO closed FROM onerun_look v WHERE v.run_id = l.run_id;
        PERFORM onerun_journal(p_now, 'taken_over', l.namespace, closed->>'job', closed->>'key', l.run_id, NULL, NULL, reason, evidence);
    END IF;
    PERFORM onerun_free(l.namespace, l.lock, l.owner);
    RETURN closed;
END
$$;

-- Answers a claim that is refused, having recorded that unless its caller asks again.
CREATE OR REPLACE FUNCTION onerun_refuse(p jsonb, p_reason text, p_holder jsonb, p_retry_at timestamptz, p_closed jsonb, p_now timestamptz) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n bigint;
BEGIN
    IF p->>'job' IS NOT NULL AND NOT ((p->>'asking')::boolean AND p_reason IN ('running', 'locked')) THEN
        INSERT INTO onerun_skip AS s (namespace, job, key, reason, holder, detail, count, first_at, last_at)
        VALUES (p->>'namespace', p->>'job', coalesce(p->>'key', ''), p_reason, onerun_holder_id(p_holder), onerun_holder_text(p_holder), 1, p_now, p_now)
        ON CONFLICT (namespace, job, key, reason, hashtextextended(holder, 0)) DO UPDATE
        SET count = s.count + 1, last_at = greatest(s.last_at, excluded.last_at), detail = excluded.detail
        RETURNING s.count INTO n;
    END IF;
    RETURN jsonb_build_object('result', 'refused', 'reason', p_reason, 'holder', p_holder, 'now_us', onerun_us(p_now),
        'retry_us', onerun_us(p_retry_at), 'count', coalesce(n, 0), 'closed', p_closed);
END
$$;

-- Writes down that an attempt begins: of a run that is there, or, where p_run is NULL, of the one
-- that the claim makes. The lock's row is in hand. Where somebody was faster all the same, all is
-- undone, and asked again.
CREATE OR REPLACE FUNCTION onerun_begin(p jsonb, p_run text, p_number integer, p_two boolean, p_token bigint, p_now timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    w       jsonb := p->'worker';
    v_ns    text := p->>'namespace';
    v_key   text := p->>'key';
    v_lock  text := p->>'lock';
    v_id    text := p->>'worker_id';
    v_host  text := w->>'host';
    v_pid   integer := (w->>'pid')::integer;
    v_run   text := coalesce(p_run, p->>'run_id');
    v_stale bigint := (p->>'stale_after')::bigint;
    v_ttl   bigint := (p->>'ttl')::bigint;
BEGIN
    IF p_run IS NULL THEN
        INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt, scheduled_at, started_at,
            token, worker_id, host, pid, stale_after, version_label, labels)
        VALUES (v_run, v_ns, p->>'job', p->>'partition', v_key, p->>'business_date', v_lock, 'RUNNING', 1,
            onerun_at((p->>'scheduled_us')::bigint), p_now, p_token, v_id, v_host, v_pid, v_stale, p->>'version_label', nullif(p->'labels', 'null'))
        ON CONFLICT (namespace, key) WHERE key IS NOT NULL DO NOTHING;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the run of % changed meanwhile', v_key USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, worker_id, host, machine, boot, pid_ns, time_ns, pid, start_ticks,
        in_process, ttl, on_crash, two_people, stale_after, retries, backoff_min, backoff_max, retry_lost, started_at)
    VALUES (v_run, p_number, 'RUNNING', p->>'owner', p_token, v_lock, v_id, v_host, w->>'machine', w->>'boot',
        (w->>'pid_ns')::bigint, (w->>'time_ns')::bigint, v_pid, (w->>'start_ticks')::bigint,
        (p->>'in_process')::boolean, v_ttl, p->>'on_crash', p_two, v_stale, (p->>'retries')::integer,
        (p->>'backoff_min')::bigint, (p->>'backoff_max')::bigint, (p->>'retry_lost')::boolean, p_now);
    -- A run that was made and pruned while this one was being made has left its tombstone.
    UPDATE onerun_lock
    SET token = p_token, owner = p->>'owner', run_id = v_run, attempt = p_number, ttl = v_ttl, expires_at = p_now + v_ttl * interval '1 microsecond',
        on_crash = p->>'on_crash', acquired_at = p_now, worker_id = v_id, host = v_host, pid = v_pid, stop = NULL
    WHERE namespace = v_ns AND lock = v_lock
      AND NOT EXISTS (SELECT 1 FROM onerun_tombstone WHERE key = v_key AND (namespace = v_ns) IS TRUE);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the run of % changed meanwhile', coalesce(v_key, p->>'job') USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN true;
END
$$;

-- A claim, decided in one step: what is known is settled, then the claim table of the
-- library (see Decide there) is applied, and what follows is written down. p is the claim; it is
-- onerun_claim that is asked, and this is what it asks where something may stand in the way.
-- p_mine: the lock's row is in hand, so that no other may be waited for. The answer has a
-- result:
--
--	granted   adopted if an earlier claim of the same owner had won already, and the run, unless
--	          it is one that begins now
--	refused   reason, holder, the time of a retry, and how often this was recorded
--	again     it met another claim halfway, and wrote nothing: ask again, in a new transaction
--	usage     it is malformed
--	schema    it is of a program with another version of the schema
--
-- In READ COMMITTED every statement sees what was committed before it began. So the rows
-- of the locks are taken first, in one ordered wait, and everything that decides is read
-- after that, by statements of their own. In one statement, or under one snapshot, a claim
-- that waited would decide on what was before it.
CREATE OR REPLACE FUNCTION onerun_decide(p jsonb, p_mine boolean) RETURNS jsonb
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    p_ns     text := p->>'namespace';
    p_job    text := p->>'job';
    p_key    text := p->>'key';           -- NULL: unkeyed
    p_lock   text := p->>'lock';
    p_owner  text := p->>'owner';
    p_ttl    bigint := (p->>'ttl')::bigint;
    w        jsonb := p->'worker';
    fifo     boolean := (p->>'fifo')::boolean;
    held     jsonb := nullif(p->'held', 'null');  -- who stands in the way on the claim's host
    here     boolean;                     -- that is who holds the lock
    hint     text;                        -- the lock under which the key runs, as far as one can tell before
    made     integer;                     -- rows that were made for the lock
    l        onerun_lock;                 -- the lock
    h        onerun_lock;                 -- the key's own, if it runs under another
    r        onerun_run;                  -- the run of the key
    tomb     onerun_tombstone;
    other    onerun_run;                  -- the run that holds the lock
    a        onerun_attempt;
    pause    onerun_job;
    approval onerun_approval;
    approved boolean := false;
    closed   jsonb := '[]';
    v_now    timestamptz;
    reason   text;
    holder   jsonb;
    retry_at timestamptz;
    evidence text;
    number   integer := 1;
    v_token  bigint;
    answer   jsonb;
BEGIN
    -- The one ordered wait. The row of a lock must be there to be waited for; it is made
    -- before anything is held.
    IF p_key IS NOT NULL AND NOT p_mine THEN
        SELECT CASE WHEN status = 'RUNNING' THEN lock END INTO hint FROM onerun_run WHERE namespace = p_ns AND key = p_key; -- by its key alone
    END IF;
    INSERT INTO onerun_lock (namespace, lock, token) VALUES (p_ns, p_lock, 0) ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    PERFORM 1 FROM onerun_lock WHERE namespace = p_ns AND lock IN (p_lock, hint) ORDER BY lock FOR UPDATE;
    SELECT * INTO l FROM onerun_lock WHERE namespace = p_ns AND lock = p_lock;
    IF NOT FOUND THEN -- it was free for long, and pruned a moment ago
        RETURN jsonb_build_object('result', 'again');
    END IF;
    v_now := clock_timestamp(); -- now() is from before the wait

    IF l.owner IS NULL THEN
        -- Somebody deleted the lock's row under a RUNNING run. It is put back, so that its
        -- owner keeps others out for as long as it may be at work. By another token: that owner has
        -- lost its lease, and is told so.
        SELECT x.* INTO a FROM onerun_run v JOIN onerun_attempt x ON x.run_id = v.run_id AND x.attempt = v.attempt
        WHERE v.namespace = p_ns AND v.lock = p_lock AND v.status = 'RUNNING';
        IF FOUND THEN
            UPDATE onerun_lock
            SET token = greatest(token, a.token) + 1, owner = a.owner, run_id = a.run_id, attempt = a.attempt, ttl = a.ttl,
                expires_at = v_now + a.ttl * interval '1 microsecond', on_crash = a.on_crash, acquired_at = a.started_at,
                worker_id = a.worker_id, host = a.host, pid = a.pid, stop = NULL
            WHERE namespace = p_ns AND lock = p_lock RETURNING * INTO l;
            made := 0;
        END IF;
    END IF;

    IF l.owner = p_owner THEN -- a lost reply
        IF held IS NOT NULL THEN -- it comes back for its grant when nobody is in the way
            RETURN onerun_refuse(p, CASE WHEN (p->>'held_stale')::boolean THEN 'stale' ELSE 'locked' END, held, NULL, closed, v_now);
        END IF;
        IF l.run_id IS NULL THEN
            IF p_job IS NOT NULL THEN
                RETURN jsonb_build_object('result', 'usage', 'words', 'its owner id holds the lock alone already, and an owner id is for one acquisition');
            END IF;
            RETURN jsonb_build_object('result', 'granted', 'adopted', true, 'now_us', onerun_us(v_now), 'token', l.token, 'ttl', l.ttl,
                'acquired_us', onerun_us(l.acquired_at));
        END IF;
        SELECT to_jsonb(v) INTO answer FROM onerun_look v WHERE v.run_id = l.run_id AND v.owner = p_owner;
        IF answer IS NOT NULL AND (p_job IS DISTINCT FROM answer->>'job' OR p_key IS DISTINCT FROM answer->>'key') THEN
            RETURN jsonb_build_object('result', 'usage', 'words', 'its owner id holds the lock for another run, and an owner id is for one acquisition');
        END IF;
        RETURN jsonb_build_object('result', 'granted', 'adopted', true, 'now_us', onerun_us(v_now), 'token', l.token, 'ttl', l.ttl, 'run', answer);
    END IF;

    IF p_key IS NOT NULL THEN
        SELECT * INTO r FROM onerun_run WHERE namespace = p_ns AND key = p_key;
        IF r.status = 'RUNNING' AND r.lock <> p_lock THEN
            IF r.lock IS DISTINCT FROM hint THEN -- never wait for more inside this transaction
                RETURN jsonb_build_object('result', 'again');
            END IF;
            SELECT * INTO h FROM onerun_lock WHERE namespace = p_ns AND lock = r.lock;
        END IF;
    END IF;

    -- Settle what is dead: the lock's holder, and the key's owner under another lock.
    FOR answer IN SELECT onerun_settle(x, p, v_now) FROM unnest(ARRAY[l, h]) x WHERE x.owner IS NOT NULL LOOP
        IF answer IS NOT NULL THEN
            closed := closed || answer;
        END IF;
    END LOOP;
    SELECT * INTO l FROM onerun_lock WHERE namespace = p_ns AND lock = p_lock;
    IF p_key IS NOT NULL THEN
        SELECT * INTO r FROM onerun_run WHERE namespace = p_ns AND key = p_key;
        IF r.run_id IS NULL THEN -- in this order: a run that is pruned meanwhile is seen either way
            SELECT * INTO tomb FROM onerun_tombstone WHERE key = p_key AND (namespace = p_ns) IS TRUE; -- by no index but that of keys
        ELSIF r.status <> 'RUNNING' THEN
            SELECT * INTO approval FROM onerun_approval WHERE run_id = r.run_id AND used_at IS NULL;
            approved := coalesce(approval.approved_by <> '' AND approval.status = r.status AND approval.attempt = r.attempt
                AND (approval.expires_at IS NULL OR v_now < approval.expires_at), false);
        END IF;
    END IF;

    -- Rows 1 to 4.
    IF r.run_id IS NOT NULL THEN
        IF r.status = 'RUNNING' THEN
            IF r.lock = p_lock THEN
                h := l;
            END IF;
            evidence := onerun_over(h, p, v_now);
            reason := CASE WHEN evidence IS NULL THEN 'running' ELSE 'stale' END;
            holder := onerun_holder(r, evidence);
        ELSIF NOT approved THEN
            reason := CASE WHEN r.status = 'SUCCEEDED' THEN 'succeeded' WHEN r.status = 'SKIPPED' THEN 'skipped' WHEN r.next_retry_at IS NULL THEN 'failed' END;
            holder := onerun_holder(r, NULL);
        END IF;
    ELSIF tomb.run_id IS NOT NULL THEN
        reason := lower(tomb.status);
        holder := jsonb_build_object('run_id', tomb.run_id, 'name', tomb.key, 'attempt', tomb.attempt, 'status', tomb.status,
            'since_us', onerun_us(coalesce(tomb.finished_at, tomb.started_at)),
            'detail', 'its history was pruned on ' || to_char(tomb.pruned_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'));
    END IF;
    -- Row 5.
    IF reason IS NULL AND p_job IS NOT NULL THEN
        SELECT * INTO pause FROM onerun_job WHERE namespace = p_ns AND job = p_job AND paused_at IS NOT NULL;
        IF FOUND THEN
            reason := 'paused';
            holder := jsonb_build_object('name', p_job, 'since_us', onerun_us(pause.paused_at), 'detail', 'paused by ' || pause.paused_by || ': ' || pause.pause_reason);
        END IF;
    END IF;
    -- Row 6.
    IF reason IS NULL AND NOT approved AND v_now < r.next_retry_at THEN
        reason := 'retry_not_due';
        retry_at := r.next_retry_at;
    END IF;
    -- Row 7.
    IF reason IS NULL AND (l.owner IS NOT NULL OR held IS NOT NULL) THEN
        evidence := onerun_over(l, p, v_now);
        reason := CASE WHEN evidence IS NULL THEN 'locked' ELSE 'stale' END;
        SELECT * INTO other FROM onerun_run WHERE run_id = l.run_id;
        here := held IS NOT NULL AND (l.owner IS NULL OR l.owner = p->>'held_owner');
        IF here AND (p->>'held_stale')::boolean THEN
            reason := 'stale';
        END IF;
        IF FOUND THEN
            holder := onerun_holder(other, CASE WHEN here THEN held->>'detail' ELSE evidence END);
        ELSIF here THEN
            holder := held;
        ELSE
            holder := jsonb_build_object('name', split_part(l.lock, '/', 2), 'worker_id', l.worker_id, 'host', l.host, 'pid', l.pid,
                'since_us', onerun_us(l.acquired_at), 'detail', coalesce(evidence, 'owner ' || l.owner));
        END IF;
    END IF;

    -- First come, first served, for who says so.
    IF reason IS NULL AND fifo THEN
        holder := onerun_first(p_ns, p_lock, p_owner, v_now);
        reason := CASE WHEN holder IS NOT NULL THEN 'locked' END;
    END IF;

    IF reason IS NOT NULL THEN
        IF made = 1 THEN -- a refusal leaves no lock behind that nobody ever had
            DELETE FROM onerun_lock WHERE namespace = p_ns AND lock = p_lock AND owner IS NULL;
        END IF;
        RETURN onerun_refuse(p, reason, holder, retry_at, closed, v_now);
    END IF;

    -- Row 8. Every change names what was read; where that is not so any more, all is undone,
    -- and asked again.
    IF fifo THEN -- its place goes with the grant
        DELETE FROM onerun_waiter WHERE owner = p_owner AND namespace = p_ns;
    END IF;
    v_token := greatest(l.token + 1, floor(onerun_us(v_now) / 1000)::bigint);
    IF p_job IS NULL THEN
        UPDATE onerun_lock
        SET token = v_token, owner = p_owner, run_id = NULL, attempt = NULL, ttl = p_ttl, expires_at = v_now + p_ttl * interval '1 microsecond',
            on_crash = p->>'on_crash', acquired_at = v_now, worker_id = p->>'worker_id', host = w->>'host', pid = (w->>'pid')::integer, stop = NULL
        WHERE namespace = p_ns AND lock = p_lock;
        RETURN jsonb_build_object('result', 'granted', 'adopted', false, 'now_us', onerun_us(v_now), 'token', v_token, 'ttl', p_ttl,
            'acquired_us', onerun_us(v_now), 'closed', closed);
    END IF;
    answer := NULL; -- where the run begins now, its claim says what it is
    IF r.run_id IS NULL THEN
        PERFORM onerun_begin(p, NULL, 1, (p->>'two_people')::boolean, v_token, v_now);
    ELSE
        number := r.attempt + 1;
        UPDATE onerun_run
        SET status = 'RUNNING', attempt = number, lock = p_lock, started_at = v_now, token = v_token, worker_id = p->>'worker_id',
            host = w->>'host', pid = (w->>'pid')::integer, stale_after = (p->>'stale_after')::bigint, version_label = p->>'version_label',
            labels = nullif(p->'labels', 'null'), finished_at = NULL, next_retry_at = NULL, reason = NULL, exit_code = NULL, signal = NULL,
            error = NULL, processed = NULL, failed = NULL
        WHERE run_id = r.run_id AND status = r.status AND attempt = r.attempt;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the run of % changed meanwhile', coalesce(p_key, p_job) USING ERRCODE = 'serialization_failure';
        END IF;
        IF approved THEN
            UPDATE onerun_approval SET used_at = v_now, used_attempt = number WHERE id = approval.id AND used_at IS NULL;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the approval of % changed meanwhile', p_key USING ERRCODE = 'serialization_failure';
            END IF;
        END IF;
        PERFORM onerun_begin(p, r.run_id, number, (p->>'two_people')::boolean OR EXISTS ( -- what was once asked of its reruns stays
            SELECT 1 FROM onerun_attempt b WHERE b.run_id = r.run_id AND b.attempt < number AND b.two_people), v_token, v_now);
        SELECT to_jsonb(v) INTO answer FROM onerun_look v WHERE v.run_id = r.run_id;
    END IF;
    RETURN jsonb_build_object('result', 'granted', 'adopted', false, 'now_us', onerun_us(v_now), 'token', v_token, 'ttl', p_ttl,
        'run', answer, 'closed', closed);
END
$$;

-- A claim; see onerun_decide. Most meet nothing that could stand in the way: the lock is free,
-- and nobody ever ran the key. Then there is no table to go through, and what is not there
-- need not be looked at one by one.
CREATE OR REPLACE FUNCTION onerun_claim(p jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    p_ns    text := p->>'namespace';
    p_job   text := p->>'job';
    p_key   text := p->>'key';
    p_lock  text := p->>'lock';
    p_ttl   bigint;
    made    boolean := false;
    v_now   timestamptz;
    v_token bigint;
    done    text;  -- a call that is assigned costs no statement
BEGIN
    IF (p->>'version')::integer <> onerun_version() THEN
        RETURN jsonb_build_object('result', 'schema', 'version', onerun_version());
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM onerun_durably();
    END IF;
    done := set_config('lock_timeout', p->>'lock_timeout', true) || set_config('application_name', p->>'application_name', true);

    -- Whoever asks for more than a free lock, or comes to a key that has a run, has more to wait
    -- for than one row.
    IF p_job IS NULL OR (p->>'fifo')::boolean OR p->>'held' IS NOT NULL OR EXISTS (SELECT 1 FROM onerun_run WHERE namespace = p_ns AND key = p_key) THEN
        RETURN onerun_decide(p, false);
    END IF;
    SELECT token INTO v_token FROM onerun_lock WHERE namespace = p_ns AND lock = p_lock AND owner IS NULL FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO onerun_lock (namespace, lock, token) VALUES (p_ns, p_lock, 0) ON CONFLICT DO NOTHING RETURNING token INTO v_token;
        made := FOUND;
    END IF;
    v_now := clock_timestamp(); -- now() is from before the wait
    IF v_token IS NULL
        OR EXISTS (SELECT 1 FROM onerun_run WHERE namespace = p_ns AND lock = p_lock AND status = 'RUNNING')
        OR EXISTS (SELECT 1 FROM onerun_job WHERE namespace = p_ns AND job = p_job AND paused_at IS NOT NULL)
        OR EXISTS (SELECT 1 FROM onerun_run WHERE namespace = p_ns AND key = p_key)
        OR EXISTS (SELECT 1 FROM onerun_tombstone WHERE key = p_key AND (namespace = p_ns) IS TRUE)
    THEN
        IF made THEN
            DELETE FROM onerun_lock WHERE namespace = p_ns AND lock = p_lock;
        END IF;
        RETURN onerun_decide(p, true);
    END IF;

    v_token := greatest(v_token + 1, floor(extract(epoch FROM v_now) * 1000)::bigint);
    done := onerun_begin(p, NULL, 1, (p->>'two_people')::boolean, v_token, v_now);
    RETURN jsonb_build_object('result', 'granted', 'adopted', false, 'now_us', onerun_us(v_now), 'token', v_token, 'ttl', p->'ttl');
END
$$;
