-- How an item is, as it is now: its row is in hand already.
SELECT state, COALESCE(payload, ''), owner FROM {database}.onerun_item WHERE namespace = ? AND job = ? AND item = ? LOCK IN SHARE MODE
