PRAGMA application_id = 1718383992; -- "flux": tells our files from other programs' SQLite databases
PRAGMA user_version = 1;

-- The log. A revision's digest covers its content and the digest before it.
CREATE TABLE revisions (
    revision   INTEGER PRIMARY KEY,
    at         TEXT NOT NULL,
    actor      TEXT NOT NULL,
    request_id TEXT NOT NULL,
    reason     TEXT,
    digest     BLOB NOT NULL
) STRICT;

CREATE INDEX revisions_by_actor ON revisions (actor, revision);

CREATE TABLE changes (
    revision INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    origin   TEXT,
    before   TEXT,
    after    TEXT,
    PRIMARY KEY (revision, idx)
) STRICT;

-- Each ends in the order of the log, so that a page of it is read without sorting the rest.
CREATE INDEX changes_by_kind ON changes (kind, revision, idx);
CREATE INDEX changes_by_resource ON changes (id, kind, revision, idx);

-- What the log adds up to at its head. With row ids, like the log: a body of 2 KB does not fit a key's page.
CREATE TABLE resources (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    unique_key TEXT,
    origin     TEXT,
    body       TEXT NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;

CREATE UNIQUE INDEX resources_unique ON resources (kind, unique_key) WHERE unique_key IS NOT NULL;

-- Notes beside the state, never rolled back.
CREATE TABLE applied (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
