-- Landings: requests to merge the branches of a run's agents into a branch of the user's. The rows are their queue.

ALTER TABLE workflows ADD COLUMN began_on TEXT NOT NULL DEFAULT '';   -- the branch its working trees began from; '': none

CREATE TABLE landings (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  space TEXT NOT NULL,
  repository TEXT NOT NULL,          -- as of its working trees
  state TEXT NOT NULL CHECK (state IN ('requested', 'merging', 'checked', 'merged', 'refused')),
  branch TEXT NOT NULL,              -- what is merged into, without refs/heads/
  terms BLOB NOT NULL,               -- JSON: whose branches, how, what checks the result, whether it is given back
  delivers INTEGER NOT NULL,         -- asked for by the workflow's file, at the end of its run
  after INTEGER NOT NULL,            -- the newest instruction of the run when it was asked for
  tries INTEGER NOT NULL DEFAULT 0,  -- how often it was begun
  expected TEXT NOT NULL DEFAULT '', -- once checked: the commit that the branch is moved from,
  tip TEXT NOT NULL DEFAULT '',      -- and the one that it is moved to, with all that lands together,
  result TEXT NOT NULL DEFAULT '',   -- and the one of these that is this landing's own
  outcome BLOB NOT NULL DEFAULT x'7b7d',  -- JSON: what came of it, as far as it is known
  requested_ms INTEGER NOT NULL,
  ended_ms INTEGER
) STRICT;
CREATE INDEX landings_open ON landings (id) WHERE state IN ('requested', 'merging', 'checked');
CREATE INDEX landings_run ON landings (run, id);
CREATE INDEX landings_space ON landings (space);

PRAGMA user_version = 11;
