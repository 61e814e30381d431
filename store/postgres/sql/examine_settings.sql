-- What is set for every session of this role in this database, and where it comes from.
SELECT json_object_agg(name, json_build_object('value', setting, 'source', source))::text
FROM pg_settings
WHERE name IN ('server_version', 'synchronous_commit', 'fsync', 'full_page_writes', 'synchronous_standby_names', 'default_transaction_read_only',
    'default_transaction_isolation', 'TimeZone', 'statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'lock_timeout',
    'idle_in_transaction_session_timeout', 'autovacuum', 'track_counts', 'max_connections', 'superuser_reserved_connections', 'reserved_connections')
