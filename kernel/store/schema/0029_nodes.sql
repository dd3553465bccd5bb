-- Nodes that were added by hand, and what was said of those of the project file. Of a join token only its digest is kept.
CREATE TABLE nodes (
  name TEXT PRIMARY KEY,
  settings TEXT,                     -- JSON, as the project file has it; null: the file has it
  draining INTEGER NOT NULL DEFAULT 0,
  digest BLOB UNIQUE,                -- of the token by which it joins
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What nodes know this project by, on whatever machine its kernel runs. Made by chance when it is first asked for.
CREATE TABLE project_identity (
  id TEXT NOT NULL
) STRICT;

PRAGMA user_version = 29;
