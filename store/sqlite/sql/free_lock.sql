UPDATE onerun_lock SET owner = NULL, run_id = NULL, attempt = NULL
WHERE namespace = ?1 AND lock = ?2 AND owner = ?3
