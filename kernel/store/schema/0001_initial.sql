-- The log, and the tables that are the state. Times are milliseconds since 1970 (wall clock, for display and
-- not_before); order is by seq and id. Every JSON or text that came as bytes is kept as bytes.

CREATE TABLE boots (
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  requeued INTEGER NOT NULL
) STRICT;

CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('kickoff', 'said', 'reply', 'system', 'status', 'document', 'proposal', 'vote',
    'resolved', 'approval', 'due', 'done', 'failed')),
  space TEXT NOT NULL,
  sender TEXT NOT NULL,
  addressed TEXT NOT NULL,           -- names, separated by blanks: directly or by a mention
  text TEXT NOT NULL,
  hops INTEGER NOT NULL,
  cause INTEGER,                     -- the instruction it comes from
  run INTEGER,                       -- the workflow row it belongs to
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX messages_channel ON messages (space, seq) WHERE kind NOT IN ('due', 'done', 'failed');
CREATE INDEX messages_cause ON messages (cause, seq) WHERE cause IS NOT NULL;
CREATE INDEX messages_run ON messages (run, seq) WHERE run IS NOT NULL AND kind NOT IN ('due', 'done', 'failed');

CREATE TABLE deliveries (
  message INTEGER NOT NULL,
  agent TEXT NOT NULL,               -- key
  name TEXT NOT NULL,                -- what the agent is called in the space
  space TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'injected', 'acked', 'dead')),
  instruction INTEGER,               -- null: delivered, but not woken by it
  PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_inbox ON deliveries (agent, space, message) WHERE state IN ('queued', 'leased', 'injected');

CREATE TABLE agents (
  key TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  home_space TEXT,                   -- of an inline agent: the space it lives in
  origin TEXT NOT NULL CHECK (origin IN ('file', 'inline', 'ephemeral')),
  file TEXT,
  definition BLOB,
  backend TEXT NOT NULL,
  model TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'stopped', 'error')),
  reason TEXT,
  restarts INTEGER NOT NULL DEFAULT 0,
  last_exit TEXT,
  last_event_ms INTEGER,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  agent TEXT NOT NULL,
  PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_agent ON members (agent);

CREATE TABLE workflows (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  tag TEXT NOT NULL,
  space TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('start', 'run')),
  file TEXT NOT NULL,
  definition BLOB NOT NULL,
  params BLOB NOT NULL,
  vouched BLOB NOT NULL,                   -- what its start was trusted to do, as JSON
  state TEXT NOT NULL CHECK (state IN ('running', 'stopped')),
  status TEXT,
  exit_code INTEGER,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  deadline_ms INTEGER,
  hops_limit INTEGER NOT NULL,
  instructions_limit INTEGER NOT NULL,
  assigned INTEGER NOT NULL DEFAULT 0,
  limited INTEGER NOT NULL DEFAULT 0     -- a limit has kept somebody asleep
) STRICT;
CREATE UNIQUE INDEX workflows_running ON workflows (space) WHERE state = 'running';
CREATE INDEX workflows_space ON workflows (space, id);

CREATE TABLE instructions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,                     -- key
  name TEXT NOT NULL,                      -- what the agent is called in the space
  space TEXT NOT NULL,
  run INTEGER,
  lane INTEGER NOT NULL CHECK (lane IN (0, 1, 2)),
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'running', 'yielded', 'waiting', 'done', 'incomplete',
    'failed', 'dead', 'cancelled')),
  epoch INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,     -- charged, with the one that runs
  crashes INTEGER NOT NULL DEFAULT 0,      -- attempts that ended in a crash; charged here and not above
  preempted INTEGER NOT NULL DEFAULT 0,
  entries INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0,
  message INTEGER NOT NULL,                -- the message it was made of
  hops INTEGER NOT NULL,
  vouched BLOB,                            -- what this message was trusted to have done, as JSON
  not_before_ms INTEGER NOT NULL DEFAULT 0,
  enqueued_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  error_class TEXT,
  cause TEXT,
  result_text TEXT NOT NULL DEFAULT '',
  manifest BLOB,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL
) STRICT;
CREATE UNIQUE INDEX one_live ON instructions (agent) WHERE state IN ('leased', 'running');
CREATE INDEX instructions_queue ON instructions (agent, lane, id, not_before_ms) WHERE state IN ('queued', 'yielded');
CREATE INDEX instructions_due ON instructions (not_before_ms) WHERE state IN ('queued', 'yielded') AND not_before_ms > 0;
CREATE INDEX instructions_open ON instructions (space, id)
  WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting');
CREATE INDEX instructions_dead ON instructions (ended_ms) WHERE state IN ('failed', 'dead');
CREATE INDEX instructions_run ON instructions (run, state) WHERE run IS NOT NULL;

CREATE TABLE attempts (
  instruction INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  n INTEGER NOT NULL,
  token_hash BLOB NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  outcome TEXT,
  exit TEXT,
  stderr_tail TEXT,
  PRIMARY KEY (instruction, epoch)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempts_token ON attempts (token_hash);

CREATE TABLE entries (
  instruction INTEGER NOT NULL,
  k INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('reply', 'tool', 'session')),
  body BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (instruction, k)
) STRICT;

CREATE TABLE effects (
  instruction INTEGER NOT NULL,
  call_key TEXT NOT NULL,
  result BLOB NOT NULL,
  PRIMARY KEY (instruction, call_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  body_hash BLOB NOT NULL,
  status INTEGER NOT NULL,
  response BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT;
CREATE INDEX idempotency_age ON idempotency (at_ms);

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  type TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  space TEXT,
  agent TEXT,                        -- name
  instruction INTEGER,
  message INTEGER,                   -- of type message: its body is read there, so that it exists once
  data BLOB
) STRICT;

PRAGMA user_version = 1;
