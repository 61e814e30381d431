INSERT OR REPLACE INTO onerun_output (run_id, attempt, at, bytes_total, truncated, text)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
