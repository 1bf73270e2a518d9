-- Text is compared byte by byte (COLLATE "C"), as the other engines do it, and whatever the system's language rules become.
CREATE TABLE flux_resourceset.store (
    -- There is one row.
    one        BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    -- The last migration, and the lowest that a release must know to work with what it left. See server.rs.
    version    BIGINT NOT NULL,
    compatible BIGINT NOT NULL,
    -- Which store this is: another one after it was made anew or filled from a backup.
    epoch      TEXT COLLATE "C" NOT NULL,
    -- Where the log ends. A commit moves it if it is where the writer thinks, and holds its lock until the end: the order of
    -- the revisions is the order of the commits.
    revision   BIGINT NOT NULL,
    digest     BYTEA NOT NULL
);

INSERT INTO flux_resourceset.store (version, compatible, epoch, revision, digest)
VALUES (0, 0, replace(gen_random_uuid()::text, '-', ''), 0, decode(repeat('00', 32), 'hex'));

-- The log. A revision's digest covers its content and the digest before it.
CREATE TABLE flux_resourceset.revisions (
    revision   BIGINT PRIMARY KEY,
    at         TEXT COLLATE "C" NOT NULL,
    actor      TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    reason     TEXT COLLATE "C",
    digest     BYTEA NOT NULL,
    -- What it takes from clusters, as JSON; null when nothing. The removal budget counts it.
    removed    TEXT COLLATE "C"
);

CREATE INDEX revisions_by_actor ON flux_resourceset.revisions (actor, revision);
CREATE INDEX revisions_that_remove ON flux_resourceset.revisions (at) WHERE removed IS NOT NULL;

CREATE TABLE flux_resourceset.changes (
    revision BIGINT NOT NULL,
    idx      BIGINT NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL,
    id       TEXT COLLATE "C" NOT NULL,
    origin   TEXT COLLATE "C",
    before   TEXT COLLATE "C",
    after    TEXT COLLATE "C",
    PRIMARY KEY (revision, idx)
);

-- Each ends in the order of the log, so that a page of it is read without sorting the rest.
CREATE INDEX changes_by_kind ON flux_resourceset.changes (kind, revision, idx);
CREATE INDEX changes_by_resource ON flux_resourceset.changes (id, kind, revision, idx);

-- What the log adds up to at its head. Room is left in each page, so that a new body goes beside the old one and no index is
-- touched.
CREATE TABLE flux_resourceset.resources (
    kind       TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    unique_key TEXT COLLATE "C",
    origin     TEXT COLLATE "C",
    body       TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, id),
    -- Judged at the end of a statement, so that two resources can swap their values.
    CONSTRAINT resources_unique UNIQUE (kind, unique_key) DEFERRABLE INITIALLY IMMEDIATE
) WITH (fillfactor = 80);

-- Notes beside the state, never rolled back.
CREATE TABLE flux_resourceset.applied (
    key   TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

-- What stands for the revisions that are no longer kept, in one row at most. Older ones that are still there are being removed.
CREATE TABLE flux_resourceset.checkpoint (
    one      BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    revision BIGINT NOT NULL,
    digest   BYTEA NOT NULL,
    state    BYTEA NOT NULL
);
