-- Items, with what their judge needs to know of the attempt that they are part of: whether
-- it is still RUNNING, and until when its lease is.
SELECT i.namespace, i.job, i.item, i.state, coalesce(i.payload, ''), i.tries, i.run_id, i.attempt, i.owner, i.on_crash,
       i.host, i.machine, i.boot, i.pid_ns, i.time_ns, i.pid, i.start_ticks,
       onerun_us(i.started_at), onerun_us(i.finished_at), i.exit_code, coalesce(i.signal, ''), coalesce(i.error, ''),
       coalesce(a.status = 'RUNNING', false), onerun_us(l.expires_at)
FROM onerun_item i
LEFT JOIN onerun_attempt a ON i.state = 'started' AND a.run_id = i.run_id AND a.attempt = i.attempt
LEFT JOIN onerun_lock l ON a.status = 'RUNNING' AND l.namespace = i.namespace AND l.lock = a.lock AND l.owner = a.owner
