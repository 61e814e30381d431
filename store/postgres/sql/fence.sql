-- Whether an owner still has its lock; and it keeps it until this transaction ends. Heartbeats
-- change no key column and pass this row lock; a claim takes FOR UPDATE and doesn't.
SELECT true FROM {schema}.onerun_lock
WHERE namespace = $1::text AND lock = $2::text AND owner = $3::text AND token = $4::bigint
FOR KEY SHARE
