-- Rules of workspaces. Each definition is a message; a row is the newest of them by its name.

CREATE TABLE rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  author TEXT NOT NULL,              -- what the agent is called in the space; user; system: the workflow's file
  author_key TEXT,                   -- the agent's key; null: a person, or a file
  scopes TEXT NOT NULL,              -- of the agent that defined it, with spaces between
  enabled INTEGER NOT NULL,
  message INTEGER NOT NULL DEFAULT 0,        -- that defined it
  defined_ms INTEGER NOT NULL,
  fired INTEGER NOT NULL DEFAULT 0,
  fired_ms INTEGER,
  spec BLOB NOT NULL                 -- JSON: protocol.rules.RuleSpec
) STRICT;
CREATE UNIQUE INDEX rules_name ON rules (space, name);
CREATE INDEX rules_enabled ON rules (space, id) WHERE enabled = 1;

-- What waits until those who were asked have agreed, as it was when they were asked.
CREATE TABLE held_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  proposal TEXT NOT NULL,            -- by which they agree
  rule INTEGER NOT NULL,
  version INTEGER NOT NULL,
  author TEXT NOT NULL,
  author_key TEXT,
  scopes TEXT NOT NULL,
  spec BLOB NOT NULL,
  occasion BLOB NOT NULL             -- JSON: kernel.policy.rules.Occasion
) STRICT;
CREATE INDEX held_rules_proposal ON held_rules (space, proposal);

ALTER TABLE ballots ADD COLUMN grants INTEGER NOT NULL DEFAULT 0;  -- so many have to say yes; 0: by its rule and quorum

PRAGMA user_version = 21;
