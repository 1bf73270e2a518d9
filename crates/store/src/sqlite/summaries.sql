PRAGMA user_version = 6;

-- The revision that an undo takes back, or that a redo makes again. The digest of the revision covers it.
ALTER TABLE revisions ADD COLUMN undoes INTEGER;
ALTER TABLE revisions ADD COLUMN redoes INTEGER;

-- How many resources of each kind the revision creates, updates and deletes, as JSON: a list of revisions reads no documents.
ALTER TABLE revisions ADD COLUMN summary TEXT;

UPDATE revisions SET summary = (
    SELECT json_group_object(kind, json(counts)) FROM (
        SELECT kind, json_group_object(action, number) AS counts FROM (
            SELECT kind,
                   CASE WHEN before IS NULL THEN 'create' WHEN after IS NULL THEN 'delete' ELSE 'update' END AS action,
                   count(*) AS number
            FROM changes WHERE changes.revision = revisions.revision GROUP BY 1, 2)
        GROUP BY kind));

CREATE INDEX revisions_by_time ON revisions (at, revision);
CREATE INDEX revisions_that_undo ON revisions (undoes, revision) WHERE undoes IS NOT NULL;
CREATE INDEX revisions_that_redo ON revisions (redoes, revision) WHERE redoes IS NOT NULL;

-- A process of an older build that still has the file open would write rows without a summary.
DROP TRIGGER revisions_have_a_state;
CREATE TRIGGER revisions_have_a_summary BEFORE INSERT ON revisions WHEN NEW.state IS NULL OR NEW.summary IS NULL
BEGIN
    SELECT RAISE(ABORT, 'a later release has migrated this database: restart this process with that release');
END;
