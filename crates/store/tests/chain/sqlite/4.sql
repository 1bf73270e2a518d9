PRAGMA user_version = 4;

-- Which store this is, in one row: another one after it was made anew or filled from a backup.
CREATE TABLE epoch (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    epoch TEXT NOT NULL
) STRICT;

INSERT INTO epoch VALUES (1, lower(hex(randomblob(16))));
