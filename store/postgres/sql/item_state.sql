-- How an item of a run's job is. A statement of its own, since what another transaction has
-- just committed isn't seen by the one that waited for it.
SELECT i.state, coalesce(i.payload, '')
FROM {schema}.onerun_run r JOIN {schema}.onerun_item i ON i.namespace = r.namespace AND i.job = r.job AND i.item = $3::text
WHERE r.namespace = $1::text AND r.run_id = $2::text
