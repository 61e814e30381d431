-- Of the two tables that grow and have long rows the rows are asked; a run's other rows are
-- reckoned by what they take on the average.
SELECT (SELECT count(*) * 1200 FROM onerun_run)
     + (SELECT count(*) * 500 FROM onerun_attempt)
     + (SELECT count(*) * 400 FROM onerun_tombstone)
     + (SELECT count(*) * 400 FROM onerun_event)
     + (SELECT count(*) * 400 FROM onerun_skip)
     + (SELECT count(*) * 500 FROM onerun_item)
     + (SELECT coalesce(sum(pg_column_size(text) + 150), 0) FROM onerun_output)
