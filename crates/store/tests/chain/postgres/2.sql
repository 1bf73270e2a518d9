-- Digests by which damage is noticed (fleet/src/integrity.rs). Those of resources and notes are filled in right after this; the
-- log's older rows stay without, since the chain of the revisions covers them.
ALTER TABLE flux_resourceset.resources ADD COLUMN digest BYTEA;
ALTER TABLE flux_resourceset.changes ADD COLUMN digest BYTEA;
ALTER TABLE flux_resourceset.applied ADD COLUMN digest BYTEA;

-- What the resources add up to after a revision. Null for older ones and after a restore, but for the last.
ALTER TABLE flux_resourceset.revisions ADD COLUMN state BYTEA;
