-- Microseconds since 1970-01-01 UTC, the form in which times travel: no session's zone or
-- date style can change them. Both functions are simple enough to be inlined.
CREATE OR REPLACE FUNCTION onerun_us(t timestamptz) RETURNS bigint
LANGUAGE sql STABLE AS 'SELECT round(extract(epoch FROM t) * 1000000)::bigint';

CREATE OR REPLACE FUNCTION onerun_at(us bigint) RETURNS timestamptz
LANGUAGE sql STABLE AS 'SELECT timestamptz ''epoch'' + us * interval ''1 microsecond''';

-- A time in words, as Go's time.RFC3339 has it in UTC.
CREATE OR REPLACE FUNCTION onerun_rfc3339(t timestamptz) RETURNS text
LANGUAGE sql STABLE AS 'SELECT to_char(date_trunc(''second'', t AT TIME ZONE ''UTC''), ''YYYY-MM-DD"T"HH24:MI:SS"Z"'')';
