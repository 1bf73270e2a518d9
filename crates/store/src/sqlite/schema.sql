PRAGMA application_id = 1718383992; -- "flux": tells our files from other programs' SQLite databases
-- Versions 1 to 4 were never released. See file.rs.
PRAGMA user_version = 5;

-- The log. A revision's digest covers its content and the digest of the revision before it.
CREATE TABLE revisions (
    revision   INTEGER PRIMARY KEY,
    at         TEXT NOT NULL,
    actor      TEXT NOT NULL,
    request_id TEXT NOT NULL,
    reason     TEXT,
    digest     BLOB NOT NULL,
    -- What the revision takes from clusters, as JSON; null if nothing. The removal budget counts it.
    removed    TEXT,
    -- The digest of all resources after the revision. After a restore, only the last revision has one.
    state      BLOB
) STRICT;

CREATE INDEX revisions_by_actor ON revisions (actor, revision);
CREATE INDEX revisions_that_remove ON revisions (at) WHERE removed IS NOT NULL;

-- A process of a build without digests that still has the file open would write rows without them.
CREATE TRIGGER revisions_have_a_state BEFORE INSERT ON revisions WHEN NEW.state IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a later release has migrated this database: restart this process with that release');
END;

CREATE TABLE changes (
    revision INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    origin   TEXT,
    before   TEXT,
    after    TEXT,
    -- Digests of rows find damage (fleet/src/integrity.rs).
    digest   BLOB,
    PRIMARY KEY (revision, idx)
) STRICT;

-- Each index ends in the order of the log, so that a page is read without sorting the rest.
CREATE INDEX changes_by_kind ON changes (kind, revision, idx);
CREATE INDEX changes_by_resource ON changes (id, kind, revision, idx);

-- The state at the head of the log. The table has row ids, like the log: a body of 2 KB does not fit on a page of keys.
CREATE TABLE resources (
    kind       TEXT NOT NULL,
    id         TEXT NOT NULL,
    unique_key TEXT,
    origin     TEXT,
    body       TEXT NOT NULL,
    digest     BLOB,
    PRIMARY KEY (kind, id)
) STRICT;

CREATE UNIQUE INDEX resources_unique ON resources (kind, unique_key) WHERE unique_key IS NOT NULL;

-- Notes beside the state, never rolled back.
CREATE TABLE applied (
    key    TEXT PRIMARY KEY,
    value  TEXT NOT NULL,
    digest BLOB
) STRICT, WITHOUT ROWID;

-- Replaces the revisions that were compacted; at most one row. Older revisions that are still in the log are being deleted.
CREATE TABLE checkpoint (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    revision INTEGER NOT NULL,
    digest   BLOB NOT NULL,
    state    BLOB NOT NULL
) STRICT;

-- The identity of the store, in one row. It changes when the store is created again or filled from a backup.
CREATE TABLE epoch (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    epoch TEXT NOT NULL
) STRICT;

INSERT INTO epoch VALUES (1, lower(hex(randomblob(16))));
