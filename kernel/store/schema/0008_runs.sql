-- Runs, and lists. Each start of a workflow begins a space of its own, unless it goes on with the one before.
-- A space that an older version began is called as its place is (review:main); all its runs share it.

ALTER TABLE workflows ADD COLUMN bound INTEGER NOT NULL DEFAULT 0;     -- workspace.bind: its words are kept until cleared
UPDATE workflows SET bound = 1
WHERE json_valid(CAST(definition AS TEXT)) AND json_extract(CAST(definition AS TEXT), '$.workspace.bind') IS NOT NULL;
CREATE UNIQUE INDEX workflows_running_at ON workflows (name, tag) WHERE state = 'running';
CREATE INDEX workflows_place ON workflows (name, tag, id);

-- What failed for good and was looked at: it is listed no more, and can still be shown and tried again.
ALTER TABLE instructions ADD COLUMN dismissed INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 8;
