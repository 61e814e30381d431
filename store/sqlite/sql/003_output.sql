-- Version 3: what a job printed. An addition only: a program of version 2 that is at work
-- while this happens can record its job's end.

CREATE TABLE onerun_output (
    run_id      TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    at          INTEGER NOT NULL,   -- when it was recorded
    bytes_total INTEGER NOT NULL,   -- how many bytes were printed
    truncated   INTEGER NOT NULL,   -- text lacks the beginning of them
    text        BLOB    NOT NULL,   -- valid UTF-8 without NUL
    PRIMARY KEY (run_id, attempt)
);
