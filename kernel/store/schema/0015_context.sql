-- What the token of an attempt opens, where its agent's file says less than all: words, one behind the other.
ALTER TABLE attempts ADD COLUMN scopes TEXT;

-- Texts that messages refer to, and that agents keep for each other: one row for one content of one space.
CREATE TABLE resources (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  space TEXT NOT NULL,
  blob BLOB NOT NULL,
  type TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,
  characters INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX resources_of_space ON resources (space, number);

-- What an agent says of itself in a space: the last of it.
CREATE TABLE statuses (
  agent TEXT NOT NULL,
  space TEXT NOT NULL,
  task TEXT,
  state TEXT,
  metadata BLOB,
  instruction INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, space)
) STRICT, WITHOUT ROWID;

-- What an instruction leaves to whoever goes on with its work: JSON, the last of it.
CREATE TABLE handovers (
  instruction INTEGER PRIMARY KEY,
  body BLOB NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;

PRAGMA user_version = 15;
