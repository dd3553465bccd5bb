-- Grants: what agents may do beyond their files, and who allowed it. Times are the kernel's own milliseconds.
CREATE TABLE grants (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  run INTEGER,                       -- the workflow row it counts in; null: an agent's own space
  agent TEXT NOT NULL,               -- the key of who has it,
  name TEXT NOT NULL,                -- and what that one is called in the space
  scope TEXT,                        -- what it opens; null: it is the answer to one request
  approval INTEGER,                  -- that request
  giver TEXT NOT NULL,               -- what the giver is called in the space, or user
  giver_key TEXT,                    -- the agent's key; null: a person
  parent INTEGER,                    -- the grant that the giver has it by; null: its own file, or a person
  warrant INTEGER,                   -- the grant by which it may give anything; null: likewise
  until_ms INTEGER,
  uses INTEGER,
  used INTEGER NOT NULL DEFAULT 0,
  given_ms INTEGER NOT NULL,
  revoked_ms INTEGER,
  revoked_by TEXT
) STRICT;
CREATE INDEX grants_standing ON grants (agent, space) WHERE revoked_ms IS NULL AND scope IS NOT NULL;
CREATE INDEX grants_space ON grants (space, id);

PRAGMA user_version = 22;
