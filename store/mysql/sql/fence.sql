-- Shares the fence of a lock until this transaction ends. The row is there since the lock was
-- granted.
SELECT 1 FROM {database}.onerun_fence WHERE namespace = ? AND `lock` = ? LOCK IN SHARE MODE
