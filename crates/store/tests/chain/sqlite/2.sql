PRAGMA user_version = 2;

-- What a revision takes from clusters, as JSON; null when nothing. The removal budget counts it.
ALTER TABLE revisions ADD COLUMN removed TEXT;

CREATE INDEX revisions_that_remove ON revisions (at) WHERE removed IS NOT NULL;
