INSERT INTO onerun_event (at, event, namespace, job, key, run_id, by, reason, detail, chain, hash, terminal)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
