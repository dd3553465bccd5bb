-- A guard's model is asked before an agent's memory is written, and to sum up what a colleague may be told: by a call
-- that waits for it. One that is made again after a crash finds its question by its name.
ALTER TABLE guard_jobs ADD COLUMN purpose TEXT NOT NULL DEFAULT 'extract'
  CHECK (purpose IN ('extract', 'write', 'ask'));
ALTER TABLE guard_jobs ADD COLUMN call TEXT;
ALTER TABLE guard_jobs ADD COLUMN told INTEGER NOT NULL DEFAULT 0;   -- 1: what it changed is in the audit
CREATE UNIQUE INDEX guard_jobs_call ON guard_jobs (call) WHERE call IS NOT NULL;

-- The vote that said yes: it is to be written into the memory.
ALTER TABLE tray ADD COLUMN voted TEXT;

-- The audit has what the guard changed, too.
CREATE TABLE audited (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('ask', 'share', 'refused', 'moved')),
  at_ms INTEGER NOT NULL,
  owner TEXT NOT NULL,               -- whose memory it is: the key of its agent
  owner_name TEXT NOT NULL,
  receiver TEXT NOT NULL,            -- who was given it
  receiver_name TEXT NOT NULL,
  space TEXT NOT NULL,
  instruction INTEGER NOT NULL,      -- that asked, or shared, or wrote
  query TEXT NOT NULL,               -- '' of what was shared or written
  given BLOB NOT NULL,               -- JSON: [{key, visibility, trust, characters, cut}, ...]
  withheld INTEGER NOT NULL,         -- keys that were to be shared, and may not be
  note TEXT NOT NULL DEFAULT ''      -- what a guard's model did with it, in words of ours
) STRICT;
INSERT INTO audited (id, kind, at_ms, owner, owner_name, receiver, receiver_name, space, instruction, query, given,
  withheld)
SELECT id, kind, at_ms, owner, owner_name, receiver, receiver_name, space, instruction, query, given, withheld
FROM audit;
DROP TABLE audit;
ALTER TABLE audited RENAME TO audit;
CREATE INDEX audit_owner ON audit (owner, id);
CREATE INDEX audit_receiver ON audit (receiver, id);

PRAGMA user_version = 24;
