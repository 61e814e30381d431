-- The journal, reckoned again: how many events and chains, how many rows that don't follow
-- from the one before them or stand in a chain that is not their own, and the first of those.
WITH e AS (
    SELECT *, lag(hash) OVER (PARTITION BY chain ORDER BY id) AS before FROM onerun_event
), f AS (
    SELECT id, chain, event, hash IS DISTINCT FROM onerun_link(before, at, event, namespace, job, key, run_id, by, terminal, reason, detail) AS loose,
           chain IS DISTINCT FROM CASE WHEN by <> '' THEN 'operator' ELSE run_id END AS astray
    FROM e
)
SELECT count(*), count(DISTINCT chain), count(*) FILTER (WHERE loose OR astray),
       coalesce((array_agg(format('row %s of chain %s (%s) %s', id, chain, event,
           CASE WHEN loose THEN 'does not follow from the row before it' ELSE 'stands in a chain that is not its own' END) ORDER BY chain, id)
           FILTER (WHERE loose OR astray))[1:5], '{}')
FROM f
