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

PRAGMA user_version = 15;
