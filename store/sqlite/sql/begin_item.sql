-- Begins an item, or begins it again: whoever calls this has decided, in the same
-- transaction, that it may.
INSERT OR REPLACE INTO onerun_item (namespace, job, item, state, payload, tries, run_id, attempt, owner, run_owner, on_crash,
    host, machine, boot, pid_ns, time_ns, pid, start_ticks, pgrp, started_at)
VALUES (?1, ?2, ?3, 'started', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
