-- The revision that an undo takes back, or that a redo makes again. The digest of the revision covers it.
ALTER TABLE flux_resourceset.revisions ADD COLUMN undoes BIGINT;
ALTER TABLE flux_resourceset.revisions ADD COLUMN redoes BIGINT;

-- How many resources of each kind the revision creates, updates and deletes, as JSON: a list of revisions reads no documents.
ALTER TABLE flux_resourceset.revisions ADD COLUMN summary TEXT COLLATE "C" NOT NULL DEFAULT '{}';

UPDATE flux_resourceset.revisions r SET summary = s.summary FROM (
    SELECT revision, json_object_agg(kind, counts)::text AS summary FROM (
        SELECT revision, kind, json_object_agg(action, number) AS counts FROM (
            SELECT revision, kind,
                   CASE WHEN before IS NULL THEN 'create' WHEN after IS NULL THEN 'delete' ELSE 'update' END AS action,
                   count(*) AS number
            FROM flux_resourceset.changes GROUP BY 1, 2, 3) AS actions
        GROUP BY 1, 2) AS kinds
    GROUP BY 1) AS s
WHERE s.revision = r.revision;

ALTER TABLE flux_resourceset.revisions ALTER COLUMN summary DROP DEFAULT;

CREATE INDEX revisions_by_time ON flux_resourceset.revisions (at, revision);
CREATE INDEX revisions_that_undo ON flux_resourceset.revisions (undoes, revision) WHERE undoes IS NOT NULL;
CREATE INDEX revisions_that_redo ON flux_resourceset.revisions (redoes, revision) WHERE redoes IS NOT NULL;
