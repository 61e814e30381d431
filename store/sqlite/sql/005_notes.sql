-- Version 5: small texts that programs share. An addition only: a program of version 4 that is
-- at work while this happens can record its job's end.

CREATE TABLE onerun_note (
    namespace  TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,     -- grows with each change
    text       TEXT    NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
