-- Questions to the model of a guard: each an instruction of its own agent, outside of any run.
CREATE TABLE guard_jobs (
  id INTEGER PRIMARY KEY,
  instruction INTEGER NOT NULL UNIQUE,
  space TEXT NOT NULL,               -- that it is about
  evidence BLOB NOT NULL,            -- JSON: the messages it was shown, and whose trays there are
  state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed'))
) STRICT;
CREATE INDEX guard_jobs_open ON guard_jobs (id) WHERE state = 'open';

-- What agents may want to remember of their runs. Nothing of it is in a prompt until somebody takes it.
CREATE TABLE tray (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('decision', 'pattern', 'work_log')),
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  messages BLOB NOT NULL,            -- JSON: the ids of those that say it
  trust TEXT NOT NULL CHECK (trust IN ('user', 'agent', 'tool', 'web')),
  space TEXT NOT NULL,
  run INTEGER,
  at_ms INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'rejected')),
  decided_by TEXT
) STRICT;
CREATE INDEX tray_agent ON tray (agent, id);
CREATE INDEX tray_open ON tray (id) WHERE state = 'open';

PRAGMA user_version = 18;
