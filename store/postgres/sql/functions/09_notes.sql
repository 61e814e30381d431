-- Writes a note that is still at a version (0: there is none), and gives it as it is then; won
-- says whether it did. The loser's look is a statement of its own, which sees what the one before
-- it has waited for. A version of null: there is no such note.
CREATE OR REPLACE FUNCTION onerun_set_note(p_namespace text, p_name text, p_version bigint, p_text text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT SET lock_timeout TO '10s' AS $$
DECLARE
    n     onerun_note;
    v_won boolean;
BEGIN
    PERFORM onerun_durably(); -- else a version that was given away could be given away again
    IF p_version = 0 THEN
        INSERT INTO onerun_note VALUES (p_namespace, p_name, 1, p_text, clock_timestamp()) ON CONFLICT DO NOTHING RETURNING * INTO n;
    ELSE
        UPDATE onerun_note SET version = version + 1, text = p_text, changed_at = clock_timestamp()
        WHERE namespace = p_namespace AND name = p_name AND version = p_version RETURNING * INTO n;
    END IF;
    v_won := FOUND;
    IF NOT v_won THEN
        SELECT * INTO n FROM onerun_note WHERE namespace = p_namespace AND name = p_name;
    END IF;
    RETURN jsonb_build_object('won', v_won, 'version', n.version, 'text', n.text, 'at_us', onerun_us(n.changed_at));
END
$$;

-- A note as it is; an empty list: there is none.
CREATE OR REPLACE FUNCTION onerun_get_note(p_namespace text, p_name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('version', version, 'text', text, 'at_us', onerun_us(changed_at))), '[]')
    FROM onerun_note WHERE namespace = p_namespace AND name = p_name
$$;
