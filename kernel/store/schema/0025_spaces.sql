-- Spaces that agents open below that of a run. Who is in one stands in members, as of a run; what was said in it, its
-- documents, tasks, rules and votes stand where those of runs do, under its own name.
CREATE TABLE subspaces (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL UNIQUE,        -- review:main~design#12.7
  base TEXT NOT NULL,                -- the space of its run
  name TEXT NOT NULL,
  run INTEGER NOT NULL,
  opener TEXT NOT NULL,              -- what its opener is called there,
  opener_key TEXT NOT NULL,          -- and the agent's key
  instruction INTEGER NOT NULL,      -- the work that it was opened in
  opened_ms INTEGER NOT NULL,
  closed_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX subspaces_open ON subspaces (base, name) WHERE closed_ms IS NULL;
CREATE INDEX subspaces_opener ON subspaces (instruction) WHERE closed_ms IS NULL;
CREATE INDEX subspaces_base ON subspaces (base, number);

-- What is put to the vote has its name to itself in its space, not in the whole run.
DROP INDEX ballots_name;
CREATE UNIQUE INDEX ballots_name ON ballots (run, name, space);

PRAGMA user_version = 25;
