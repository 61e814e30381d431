-- The hash of an event: SHA-256, in hexadecimal, over a JSON array of the hash before it in
-- its chain and of its own fields, an empty text for what is NULL.
CREATE OR REPLACE FUNCTION onerun_link(p_before text, p_at timestamptz, p_event text, p_namespace text, p_job text, p_key text, p_run_id text,
    p_by text, p_terminal text, p_reason text, p_detail text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(convert_to(json_build_array(coalesce(p_before, ''), onerun_us(p_at), p_event, p_namespace, p_job,
        coalesce(p_key, ''), coalesce(p_run_id, ''), coalesce(p_by, ''), coalesce(p_terminal, ''), coalesce(p_reason, ''),
        coalesce(p_detail, ''))::text, 'UTF8')), 'hex')
$$;

-- Appends to the journal. What people decide is one chain, and whoever writes to it queues
-- for its end, with everything else in hand; a run's own events are a chain each, whose end
-- its row guards, so that no claim and no finish ever queues there.
CREATE OR REPLACE FUNCTION onerun_journal(p_at timestamptz, p_event text, p_namespace text, p_job text, p_key text, p_run_id text,
    p_by text, p_terminal text, p_reason text, p_detail text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_chain text := p_run_id;
    last    text;
BEGIN
    IF p_by <> '' THEN
        v_chain := 'operator';
        PERFORM pg_advisory_xact_lock(x'6f6e657200000000'::bigint | 'onerun_event'::regclass::oid::bigint);
    END IF;
    -- A statement of its own: it sees what was committed while this one waited.
    SELECT hash INTO last FROM onerun_event WHERE chain = v_chain ORDER BY id DESC LIMIT 1;
    INSERT INTO onerun_event (at, event, namespace, job, key, run_id, by, terminal, reason, detail, chain, hash)
    VALUES (p_at, p_event, p_namespace, p_job, nullif(p_key, ''), nullif(p_run_id, ''), nullif(p_by, ''), nullif(p_terminal, ''),
        nullif(p_reason, ''), nullif(p_detail, ''), v_chain,
        onerun_link(last, p_at, p_event, p_namespace, p_job, p_key, p_run_id, p_by, p_terminal, p_reason, p_detail));
END
$$;
