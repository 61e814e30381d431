-- Version 2: small texts that programs share.
CREATE TABLE IF NOT EXISTS onerun_note (
    namespace  VARBINARY(400) NOT NULL,
    name       VARBINARY(900) NOT NULL,
    version    BIGINT         NOT NULL,  -- grows with each change
    text       MEDIUMTEXT     NOT NULL,
    changed_at BIGINT         NOT NULL,
    PRIMARY KEY (namespace, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
