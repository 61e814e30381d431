-- Items, with what their judge needs to know of the attempt that they are part of: whether
-- it is still RUNNING.
SELECT i.namespace, i.job, i.item, i.state, coalesce(i.payload, ''), i.tries, i.run_id, i.attempt, i.owner, i.run_owner, i.on_crash,
       coalesce(i.host, ''), coalesce(i.machine, ''), coalesce(i.boot, ''), coalesce(i.pid_ns, 0), coalesce(i.time_ns, 0),
       coalesce(i.pid, 0), coalesce(i.start_ticks, 0), coalesce(i.pgrp, 0),
       i.started_at, i.finished_at, i.exit_code, coalesce(i.signal, ''), coalesce(i.error, ''), coalesce(a.status = 'RUNNING', 0)
FROM onerun_item i LEFT JOIN onerun_attempt a ON a.run_id = i.run_id AND a.attempt = i.attempt
