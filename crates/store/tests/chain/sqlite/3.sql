PRAGMA user_version = 3;

-- What stands for the revisions that are no longer kept, in one row at most. Older ones that are still there are being removed.
CREATE TABLE checkpoint (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    revision INTEGER NOT NULL,
    digest   BLOB NOT NULL,
    state    BLOB NOT NULL
) STRICT;
