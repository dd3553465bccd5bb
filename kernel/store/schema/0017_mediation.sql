-- What agents were given of each other's memory: who asked whom for what. Which entries, and never what they say.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('ask', 'share')),
  at_ms INTEGER NOT NULL,
  owner TEXT NOT NULL,               -- whose memory it is: the key of its agent
  owner_name TEXT NOT NULL,
  receiver TEXT NOT NULL,            -- who was given it
  receiver_name TEXT NOT NULL,
  space TEXT NOT NULL,
  instruction INTEGER NOT NULL,      -- that asked, or shared
  query TEXT NOT NULL,               -- '' of what was shared
  given BLOB NOT NULL,               -- JSON: [{key, visibility, trust, characters, cut}, ...]
  withheld INTEGER NOT NULL          -- keys that were to be shared, and may not be
) STRICT;
CREATE INDEX audit_owner ON audit (owner, id);
CREATE INDEX audit_receiver ON audit (receiver, id);

-- The traits of an agent as they were, once something was changed in its baseline; they count by one.
CREATE TABLE soul_versions (
  agent TEXT NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,                -- what soul.yaml says
  diff TEXT NOT NULL,                -- from the version before
  reason TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,               -- null: a person
  proposal INTEGER,
  at_ms INTEGER NOT NULL,
  written INTEGER NOT NULL,          -- 0: it is still to be written into the file
  PRIMARY KEY (agent, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX soul_versions_unwritten ON soul_versions (agent) WHERE written = 0;

CREATE TABLE soul_proposals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,
  trait TEXT NOT NULL,
  value TEXT NOT NULL,
  observation TEXT NOT NULL,
  space TEXT NOT NULL,
  instruction INTEGER NOT NULL,
  run INTEGER,
  at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected')),
  decided_by TEXT,
  reason TEXT,
  version INTEGER                    -- that it became
) STRICT;
CREATE INDEX soul_proposals_open ON soul_proposals (agent, id) WHERE state = 'open';

PRAGMA user_version = 17;
