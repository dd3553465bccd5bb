-- What workers need that run tools and programs. Times are the kernel's own milliseconds (kernel.clock).

-- A call of a tool that somebody has to agree to, bound to exactly that call: its key, the tool and its input.
CREATE TABLE approvals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  instruction INTEGER NOT NULL,
  epoch INTEGER NOT NULL,            -- of the attempt that asked last
  agent TEXT NOT NULL,               -- key
  name TEXT NOT NULL,                -- what the agent is called in the space
  space TEXT NOT NULL,
  call_key TEXT,                     -- null: the client names no calls, or the work began anew
  tool TEXT NOT NULL,
  input BLOB NOT NULL,               -- canonical JSON; empty where it is a blob
  blob BLOB,                         -- its hash in blobs
  digest BLOB NOT NULL,              -- SHA-256 of the canonical input
  why TEXT NOT NULL,                 -- the agent's own words
  state TEXT NOT NULL CHECK (state IN ('open', 'granted', 'denied', 'expired')),
  requested_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,       -- an open one is refused then
  waits_ms INTEGER NOT NULL,         -- a run is kept open for it until then; 0: the run ends
  held INTEGER NOT NULL,             -- the call itself is kept waiting, until it has the decision
  told INTEGER NOT NULL DEFAULT 0,   -- who asked has learned the decision: it is used up
  decided_ms INTEGER,
  decided_by TEXT,
  reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX approvals_call ON approvals (instruction, tool, digest, call_key) WHERE call_key IS NOT NULL;
CREATE INDEX approvals_instruction ON approvals (instruction, state);
CREATE INDEX approvals_open ON approvals (expires_ms) WHERE state = 'open';
CREATE INDEX approvals_blob ON approvals (blob) WHERE blob IS NOT NULL;

-- What a person agreed to once for all.
CREATE TABLE approval_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT,                        -- key; null: every agent
  tool TEXT NOT NULL,
  pattern TEXT NOT NULL,             -- of the whole canonical input; * is any text
  created_by TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX approval_rules_tool ON approval_rules (tool, id);

ALTER TABLE workflows ADD COLUMN approval TEXT;                -- of this run, whatever its agents' files say
ALTER TABLE workflows ADD COLUMN attended INTEGER NOT NULL DEFAULT 0;          -- somebody watches it, and may approve

-- What was said about the work itself.
CREATE TABLE feedback (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  author TEXT NOT NULL,              -- an agent's name in the space, or user
  space TEXT,                        -- null: the user's
  instruction INTEGER,
  call_key TEXT,
  text TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX feedback_call ON feedback (instruction, call_key) WHERE call_key IS NOT NULL;
CREATE INDEX feedback_space ON feedback (space) WHERE space IS NOT NULL;

-- Requests and decisions are facts: a channel leaves them out.
DROP INDEX messages_channel;
CREATE INDEX messages_channel ON messages (space, seq) WHERE kind NOT IN ('approval', 'due', 'done', 'failed');
DROP INDEX messages_run;
CREATE INDEX messages_run ON messages (run, seq)
  WHERE run IS NOT NULL AND kind NOT IN ('approval', 'due', 'done', 'failed');

-- Working trees of members of a run: one for each, on a branch of its own.
CREATE TABLE worktrees (
  run INTEGER NOT NULL,
  agent TEXT NOT NULL,               -- key
  name TEXT NOT NULL,                -- what the agent is called in the space
  space TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'made', 'removing', 'kept', 'gone')),
  repository TEXT NOT NULL,          -- the directory that holds the objects and branches of the project's git
  base TEXT NOT NULL,                -- the commit it began with
  branch TEXT NOT NULL,
  path TEXT NOT NULL,
  folder TEXT NOT NULL,              -- the project, as seen from the top of a working tree
  git_dir TEXT NOT NULL DEFAULT '',  -- what is this tree's own in the repository; once it was made
  why TEXT NOT NULL DEFAULT '',      -- of a kept one: what would be lost
  PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX worktrees_path ON worktrees (path) WHERE state <> 'gone';
CREATE INDEX worktrees_space ON worktrees (space, run);

PRAGMA user_version = 3;
