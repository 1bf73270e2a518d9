-- Text is compared byte by byte (COLLATE "C"), as in the other engines, independent of the system's language rules.
CREATE TABLE flux_resourceset.store (
    -- There is one row.
    one        BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    -- The last migration, and the lowest that a release must know to work with the schema. See server.rs.
    version    BIGINT NOT NULL,
    compatible BIGINT NOT NULL,
    -- The identity of the store. It changes when the store is created again or filled from a backup.
    epoch      TEXT COLLATE "C" NOT NULL,
    -- The head of the log. A commit moves it if it is where the writer expects, and holds the row's lock until the end: the order
    -- of the revisions is the order of the commits.
    revision   BIGINT NOT NULL,
    digest     BYTEA NOT NULL
);

INSERT INTO flux_resourceset.store (version, compatible, epoch, revision, digest)
VALUES (0, 0, replace(gen_random_uuid()::text, '-', ''), 0, decode(repeat('00', 32), 'hex'));

-- The log. A revision's digest covers its content and the digest of the revision before it.
CREATE TABLE flux_resourceset.revisions (
    revision   BIGINT PRIMARY KEY,
    at         TEXT COLLATE "C" NOT NULL,
    actor      TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    reason     TEXT COLLATE "C",
    digest     BYTEA NOT NULL,
    -- What the revision takes from clusters, as JSON; null if nothing. The removal budget counts it.
    removed    TEXT COLLATE "C",
    -- The digest of all resources after the revision. After a restore, only the last revision has one.
    state      BYTEA
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
    -- Digests of rows find damage (fleet/src/integrity.rs).
    digest   BYTEA,
    PRIMARY KEY (revision, idx)
);

-- Each index ends in the order of the log, so that a page is read without sorting the rest.
CREATE INDEX changes_by_kind ON flux_resourceset.changes (kind, revision, idx);
CREATE INDEX changes_by_resource ON flux_resourceset.changes (id, kind, revision, idx);

-- The state at the head of the log. Each page has spare room, so that a new body fits beside the old one and no index is touched.
CREATE TABLE flux_resourceset.resources (
    kind       TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    unique_key TEXT COLLATE "C",
    origin     TEXT COLLATE "C",
    body       TEXT COLLATE "C" NOT NULL,
    digest     BYTEA,
    PRIMARY KEY (kind, id),
    -- Checked at the end of a statement, so that two resources can swap their values.
    CONSTRAINT resources_unique UNIQUE (kind, unique_key) DEFERRABLE INITIALLY IMMEDIATE
) WITH (fillfactor = 80);

-- Notes beside the state, never rolled back.
CREATE TABLE flux_resourceset.applied (
    key    TEXT COLLATE "C" PRIMARY KEY,
    value  TEXT COLLATE "C" NOT NULL,
    digest BYTEA
);

-- Replaces the revisions that were compacted; at most one row. Older revisions that are still in the log are being deleted.
CREATE TABLE flux_resourceset.checkpoint (
    one      BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    revision BIGINT NOT NULL,
    digest   BYTEA NOT NULL,
    state    BYTEA NOT NULL
);
