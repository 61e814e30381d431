-- ?1 namespace, ?2 what the keys begin with, ?3 what is greater than all of those.
SELECT key FROM onerun_run WHERE namespace = ?1 AND key >= ?2 AND key < ?3 ORDER BY key DESC LIMIT 100
