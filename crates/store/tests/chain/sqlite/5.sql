PRAGMA user_version = 5;

-- Digests by which damage is noticed (fleet/src/integrity.rs). Those of resources and notes are filled in right after this; the
-- log's older rows stay without, since the chain of the revisions covers them.
ALTER TABLE resources ADD COLUMN digest BLOB;
ALTER TABLE changes ADD COLUMN digest BLOB;
ALTER TABLE applied ADD COLUMN digest BLOB;

-- What the resources add up to after a revision. Empty for older ones and after a restore, but for the last.
ALTER TABLE revisions ADD COLUMN state BLOB;

-- A process of an older release that has the file open would write rows without digests.
CREATE TRIGGER revisions_have_a_state BEFORE INSERT ON revisions WHEN NEW.state IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a later release has migrated this database: restart this process with that release');
END;
