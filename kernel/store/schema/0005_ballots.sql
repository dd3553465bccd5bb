-- What is put to the vote in a workspace. Times are the kernel's own milliseconds (kernel.clock).

CREATE TABLE ballots (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  run INTEGER NOT NULL,              -- the workflow row it belongs to
  name TEXT NOT NULL,                -- its id for those who vote
  type TEXT NOT NULL CHECK (type IN ('election', 'decision', 'approval', 'assignment')),
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  options BLOB NOT NULL,             -- JSON: [{id, label}, ...]
  rule TEXT NOT NULL CHECK (rule IN ('plurality', 'majority', 'unanimous')),
  quorum INTEGER NOT NULL,           -- so many electors must have voted
  tie_breaker TEXT CHECK (tie_breaker IN ('first', 'random', 'creator-decides')),
  binding INTEGER NOT NULL,
  creator TEXT NOT NULL,             -- what the agent is called in the space, or user
  creator_key TEXT,                  -- the agent's key; null: a person
  hops INTEGER NOT NULL,             -- of the message that announced it
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,       -- an open one ends then
  state TEXT NOT NULL CHECK (state IN ('open', 'resolved', 'expired', 'cancelled')),
  tie_told INTEGER NOT NULL DEFAULT 0,       -- its creator knows that a tie is to be broken
  winner TEXT,
  why TEXT CHECK (why IN ('quorum', 'settled', 'creator', 'deadline', 'cancelled')),
  reason TEXT NOT NULL DEFAULT '',   -- of a cancellation
  ended_ms INTEGER,
  ended_by TEXT,
  salt TEXT NOT NULL DEFAULT ''      -- by chance: what lots are drawn from, which nobody is told
) STRICT;
CREATE UNIQUE INDEX ballots_name ON ballots (run, name);
CREATE INDEX ballots_space ON ballots (space, id);
CREATE INDEX ballots_open ON ballots (expires_ms) WHERE state = 'open';

-- Members when it was created.
CREATE TABLE electors (
  ballot INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (ballot, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE votes (
  ballot INTEGER NOT NULL,
  voter TEXT NOT NULL,               -- an elector's name, or user
  n INTEGER NOT NULL,                -- its place among the votes of the ballot
  choice TEXT NOT NULL,
  reason TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (ballot, voter)
) STRICT, WITHOUT ROWID;

ALTER TABLE workflows ADD COLUMN verdict TEXT CHECK (verdict IN ('yes', 'no'));  -- what the vote decided that decides over it

PRAGMA user_version = 5;
