-- Where an attempt runs: the name of a node, '' for the kernel's own machine. What an agent's file asks of that place, as
-- JSON (NULL: nothing, so it runs here), what a workflow has instead of it, and the node that an agent worked on last.
-- Nothing of an agent is leased before fenced_until_ms: until then a node may still have its processes.
ALTER TABLE attempts ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN needs TEXT;
ALTER TABLE agents ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN fenced_until_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE members ADD COLUMN needs TEXT;
CREATE INDEX agents_fenced ON agents (fenced_until_ms) WHERE fenced_until_ms > 0;

PRAGMA user_version = 30;
