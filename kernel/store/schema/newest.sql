-- What all migrations of this folder come to: an empty database is given this in their place.
-- Written by scripts/generate from the migrations themselves; a change to the schema is one more of them.

CREATE TABLE boots (
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  requeued INTEGER NOT NULL
, stopped_ms INTEGER, progress_seq INTEGER NOT NULL DEFAULT 0, safe INTEGER NOT NULL DEFAULT 0, machine TEXT, offset_ms INTEGER, skipped_ms INTEGER NOT NULL DEFAULT 0, term INTEGER NOT NULL DEFAULT 0) STRICT;

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
, cleared INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE INDEX messages_cause ON messages (cause, seq) WHERE cause IS NOT NULL;

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
, crash_streak INTEGER NOT NULL DEFAULT 0, crashed_ms INTEGER NOT NULL DEFAULT 0, stepped INTEGER NOT NULL DEFAULT 0, resume_at_ms INTEGER NOT NULL DEFAULT 0, hold_key TEXT, hold_reason TEXT, hold_until_ms INTEGER NOT NULL DEFAULT 0, provider TEXT NOT NULL DEFAULT '', queue_limit INTEGER, cache_write_tokens INTEGER NOT NULL DEFAULT 0, answer_ms INTEGER NOT NULL DEFAULT 0, needs TEXT, node TEXT NOT NULL DEFAULT '', fenced_until_ms INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

CREATE TABLE members (
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  agent TEXT NOT NULL, backend TEXT, answer_ms INTEGER, needs TEXT,
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
, paused INTEGER NOT NULL DEFAULT 0, limited_by TEXT, wall_time_ms INTEGER, budget_tokens INTEGER, budget_usd REAL, spent_tokens INTEGER NOT NULL DEFAULT 0, spent_usd REAL NOT NULL DEFAULT 0, workspace TEXT NOT NULL DEFAULT 'kept'
  CHECK (workspace IN ('kept', 'memory', 'none')), mirror TEXT, exit_from TEXT, approval TEXT, attended INTEGER NOT NULL DEFAULT 0, verdict TEXT CHECK (verdict IN ('yes', 'no')), bound INTEGER NOT NULL DEFAULT 0, began_on TEXT NOT NULL DEFAULT '', held_kickoff BLOB) STRICT;

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
, waits_for TEXT, wait_key TEXT, parked_ms INTEGER NOT NULL DEFAULT 0, throttled_ms INTEGER NOT NULL DEFAULT 0, kernel_deaths INTEGER NOT NULL DEFAULT 0, progress_mark INTEGER NOT NULL DEFAULT -1, promoted INTEGER NOT NULL DEFAULT 0, by_mention INTEGER NOT NULL DEFAULT 0, prefix BLOB, continues INTEGER, carried_steps INTEGER NOT NULL DEFAULT 0, compacted INTEGER NOT NULL DEFAULT 0, aside INTEGER NOT NULL DEFAULT 0, asked_by INTEGER, told INTEGER NOT NULL DEFAULT 0, model TEXT, cache_write_tokens INTEGER NOT NULL DEFAULT 0, dismissed INTEGER NOT NULL DEFAULT 0, answer_by_ms INTEGER NOT NULL DEFAULT 0, trust INTEGER NOT NULL DEFAULT 0) STRICT;

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
  stderr_tail TEXT, worked_ms INTEGER NOT NULL DEFAULT 0, scopes TEXT, node TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (instruction, epoch)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX attempts_token ON attempts (token_hash);

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

CREATE INDEX instructions_waiting ON instructions (wait_key, lane, id) WHERE state = 'waiting';

CREATE INDEX instructions_parked ON instructions (agent, lane, id) WHERE state = 'waiting';

CREATE INDEX instructions_timed ON instructions (not_before_ms) WHERE state = 'waiting' AND not_before_ms > 0;

CREATE INDEX instructions_aging ON instructions (enqueued_ms) WHERE state IN ('queued', 'yielded') AND lane > 0;

CREATE INDEX instructions_joining ON instructions (agent, space, lane)
  WHERE state = 'queued' AND by_mention = 1 AND epoch = 0;

CREATE INDEX instructions_ended ON instructions (agent, space, ended_ms) WHERE ended_ms IS NOT NULL;

CREATE INDEX instructions_continued ON instructions (continues) WHERE continues IS NOT NULL;

CREATE INDEX instructions_asked ON instructions (asked_by, id) WHERE asked_by IS NOT NULL AND told = 0;

CREATE INDEX deliveries_instruction ON deliveries (instruction) WHERE instruction IS NOT NULL;

CREATE INDEX agents_held ON agents (hold_key) WHERE hold_key IS NOT NULL;

CREATE INDEX agents_resume ON agents (resume_at_ms) WHERE resume_at_ms > 0;

CREATE TABLE crashes (
  agent TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX crashes_agent ON crashes (agent, at_ms);

CREATE TABLE breakers (
  key TEXT PRIMARY KEY,
  reason TEXT NOT NULL,              -- protocol.instruction.WaitReason
  state TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
  open_until_ms INTEGER NOT NULL DEFAULT 0,  -- of an open one; 0: until a person does something
  opens INTEGER NOT NULL DEFAULT 0,  -- in a row
  failures BLOB NOT NULL,            -- JSON: when it failed lately, while closed
  probe INTEGER,                     -- of a half-open one: the instruction that may try
  changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE spending (
  agent TEXT NOT NULL,
  minute INTEGER NOT NULL,           -- since 1970
  tokens INTEGER NOT NULL,
  usd REAL NOT NULL,                 -- of what has a known price
  worked_ms INTEGER NOT NULL DEFAULT 0,      -- by attempts that have ended
  PRIMARY KEY (agent, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE timers (
  agent TEXT NOT NULL,               -- key
  home TEXT NOT NULL,                -- where its schedule stands: the agent's personal space, or a workflow's space
  schedule BLOB NOT NULL,            -- protocol.agent.Schedule as JSON
  period_ms INTEGER,                 -- of an interval; null: cron, then next_ms and fired_ms are of the wall clock
  next_ms INTEGER NOT NULL,
  fired_ms INTEGER,                  -- last
  instruction INTEGER,               -- what it last became
  coalesced INTEGER NOT NULL DEFAULT 0,      -- times it came since then while that still waited for its turn
  PRIMARY KEY (agent, home)
) STRICT, WITHOUT ROWID;

CREATE INDEX timers_steady ON timers (next_ms) WHERE period_ms IS NOT NULL;

CREATE INDEX timers_wall ON timers (next_ms) WHERE period_ms IS NULL;

CREATE TABLE blobs (
  hash BLOB PRIMARY KEY,             -- SHA-256 of the body
  body BLOB NOT NULL,
  part BLOB,                         -- of a frozen prompt: the hash of its system text, a blob of its own
  put_ms INTEGER NOT NULL            -- about when it was last put: what was put just now is not swept
) STRICT;

CREATE TABLE entries (
  instruction INTEGER NOT NULL,
  k INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('reply', 'tool', 'session', 'note')),
  body BLOB NOT NULL,                -- empty where it is a blob
  blob BLOB,                         -- the hash of the body in blobs
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (instruction, k)
) STRICT;

CREATE TABLE kept (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  events INTEGER NOT NULL            -- up to this seq, events may be missing
) STRICT;

CREATE INDEX workflows_mirror ON workflows (mirror) WHERE mirror IS NOT NULL;

CREATE INDEX workflows_memory ON workflows (space) WHERE workspace = 'memory';

CREATE TABLE mirrors (
  space TEXT PRIMARY KEY,            -- empty: all; else its files are to be made anew
  seq INTEGER NOT NULL               -- up to here everything is in its files
) STRICT, WITHOUT ROWID;

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

CREATE TABLE approval_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT,                        -- key; null: every agent
  tool TEXT NOT NULL,
  pattern TEXT NOT NULL,             -- of the whole canonical input; * is any text
  created_by TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX approval_rules_tool ON approval_rules (tool, id);

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

CREATE INDEX messages_channel ON messages (space, seq) WHERE kind NOT IN ('approval', 'due', 'done', 'failed');

CREATE INDEX messages_run ON messages (run, seq)
  WHERE run IS NOT NULL AND kind NOT IN ('approval', 'due', 'done', 'failed');

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
  why TEXT NOT NULL DEFAULT '', follows TEXT NOT NULL DEFAULT '', commits TEXT NOT NULL DEFAULT 'auto' CHECK (commits IN ('auto', 'manual')), tip TEXT NOT NULL DEFAULT '', ahead INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT '', confined INTEGER NOT NULL DEFAULT 0,      -- of a kept one: what would be lost
  PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX worktrees_path ON worktrees (path) WHERE state <> 'gone';

CREATE INDEX worktrees_space ON worktrees (space, run);

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
, strict INTEGER NOT NULL DEFAULT 0, binds BLOB, grants INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE INDEX ballots_space ON ballots (space, id);

CREATE INDEX ballots_open ON ballots (expires_ms) WHERE state = 'open';

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

CREATE TABLE quotas (
  instruction INTEGER PRIMARY KEY,
  messages INTEGER NOT NULL DEFAULT 0,
  instructions INTEGER NOT NULL DEFAULT 0,   -- of others, which its messages became
  approvals INTEGER NOT NULL DEFAULT 0,      -- that a person was asked for
  feedback INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,          -- of text that is kept
  told TEXT NOT NULL DEFAULT ''              -- which of these were reached, and an event said so
) STRICT;

CREATE UNIQUE INDEX workflows_running_at ON workflows (name, tag) WHERE state = 'running';

CREATE INDEX workflows_place ON workflows (name, tag, id);

CREATE INDEX attempts_open ON attempts (instruction) WHERE ended_ms IS NULL;

CREATE TABLE landings (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  space TEXT NOT NULL,
  repository TEXT NOT NULL,          -- as of its working trees
  state TEXT NOT NULL CHECK (state IN ('requested', 'merging', 'checked', 'merged', 'refused')),
  branch TEXT NOT NULL,              -- what is merged into, without refs/heads/
  terms BLOB NOT NULL,               -- JSON: whose branches, how, what checks the result, whether it is given back
  delivers INTEGER NOT NULL,         -- asked for by the workflow's file, at the end of its run
  after INTEGER NOT NULL,            -- the newest instruction of the run when it was asked for
  tries INTEGER NOT NULL DEFAULT 0,  -- how often it was begun
  expected TEXT NOT NULL DEFAULT '', -- once checked: the commit that the branch is moved from,
  tip TEXT NOT NULL DEFAULT '',      -- and the one that it is moved to, with all that lands together,
  result TEXT NOT NULL DEFAULT '',   -- and the one of these that is this landing's own
  outcome BLOB NOT NULL DEFAULT x'7b7d',  -- JSON: what came of it, as far as it is known
  requested_ms INTEGER NOT NULL,
  ended_ms INTEGER
) STRICT;

CREATE INDEX landings_open ON landings (id) WHERE state IN ('requested', 'merging', 'checked');

CREATE INDEX landings_run ON landings (run, id);

CREATE INDEX landings_space ON landings (space);

CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  version INTEGER NOT NULL,          -- the newest; they count by one, also through a deletion
  content TEXT NOT NULL,             -- of that version; '' of one that is deleted
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX documents_file ON documents (space, file);

CREATE TABLE document_versions (
  document INTEGER NOT NULL,
  version INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('create', 'write', 'append', 'merge', 'accept', 'delete')),
  message INTEGER NOT NULL,
  author TEXT NOT NULL,              -- what the agent is called in the space, or user
  instruction INTEGER,               -- null: a person
  run INTEGER,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  added INTEGER NOT NULL,            -- lines
  removed INTEGER NOT NULL,
  undo BLOB NOT NULL                 -- JSON: [[start, end, [line, ...]], ...] makes the version before of this one
) STRICT;

CREATE UNIQUE INDEX document_versions_number ON document_versions (document, version);

CREATE TABLE document_suggestions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  since INTEGER NOT NULL,            -- the version that it was made from; 0: there was none
  content TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,
  run INTEGER,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'accepted', 'rejected')),
  decided_by TEXT,
  decision_reason TEXT,
  version INTEGER                    -- of the document, once it is accepted
) STRICT;

CREATE INDEX document_suggestions_space ON document_suggestions (space, state, id);

CREATE TABLE document_owners (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  pattern TEXT NOT NULL,
  owner TEXT NOT NULL
) STRICT;

CREATE INDEX document_owners_space ON document_owners (space, id);

CREATE TABLE document_mirrors (
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  folder TEXT NOT NULL,              -- of the workspace, as seen from the project's root
  version INTEGER NOT NULL,
  digest BLOB NOT NULL,              -- SHA-256 of what was in the file then
  told BLOB,                         -- that of what a person wrote since, which is not taken, once that was told
  PRIMARY KEY (space, file)
) STRICT, WITHOUT ROWID;

CREATE INDEX workflows_mirrored ON workflows (id) WHERE mirror IS NOT NULL;

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  n INTEGER NOT NULL,                -- its number there: t3
  key TEXT,                          -- what whoever planned it calls it
  title TEXT NOT NULL,
  text TEXT NOT NULL,
  for_name TEXT,                     -- the member that it is given to once it is ready; null: whoever claims it
  parent INTEGER,                    -- n of the task that it is a part of
  found_in INTEGER,                  -- n of the task that was worked on when it was planned
  files BLOB NOT NULL,               -- JSON: globs that nobody else changes while it is claimed
  command TEXT,                      -- what checks that it is done
  vouched INTEGER NOT NULL,          -- the command is a person's, or of a file that is trusted: nobody is asked
  confined INTEGER NOT NULL,         -- the command is that of a confined agent, and run like it
  on_failure TEXT CHECK (on_failure IN ('hold', 'skip', 'cancel')),
  state TEXT NOT NULL CHECK (state IN ('open', 'ready', 'claimed', 'done', 'failed', 'cancelled')),
  creator TEXT NOT NULL,             -- a member, user, or system for the workflow's file
  hops INTEGER NOT NULL,             -- of the message that planned it
  created_ms INTEGER NOT NULL,
  ready_ms INTEGER,
  given_out INTEGER NOT NULL DEFAULT 0,   -- how often it was made an instruction
  instruction INTEGER,               -- the one it was given out as, or was claimed in, last
  holder TEXT,                       -- who has claimed it,
  epoch INTEGER,                     -- and the attempt of the instruction that did; null: a person
  claimed_ms INTEGER,
  result TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  ended_ms INTEGER,
  ended_by TEXT
, handed_by INTEGER) STRICT;

CREATE UNIQUE INDEX tasks_number ON tasks (space, n);

CREATE INDEX tasks_key ON tasks (space, key, n) WHERE key IS NOT NULL;

CREATE INDEX tasks_state ON tasks (space, state, n);

CREATE INDEX tasks_instruction ON tasks (instruction) WHERE instruction IS NOT NULL AND state IN ('ready', 'claimed');

CREATE INDEX tasks_unfinished ON tasks (state, space) WHERE state IN ('open', 'ready');

CREATE TABLE task_needs (
  task INTEGER NOT NULL,             -- tasks.id of the one that waits
  needs INTEGER NOT NULL,            -- tasks.id of the one that it waits for
  PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_needs_needed ON task_needs (needs, task);

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

CREATE TABLE handovers (
  instruction INTEGER PRIMARY KEY,
  body BLOB NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;

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

CREATE TABLE guard_jobs (
  id INTEGER PRIMARY KEY,
  instruction INTEGER NOT NULL UNIQUE,
  space TEXT NOT NULL,               -- that it is about
  evidence BLOB NOT NULL,            -- JSON: the messages it was shown, and whose trays there are
  state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed'))
, purpose TEXT NOT NULL DEFAULT 'extract'
  CHECK (purpose IN ('extract', 'write', 'ask')), call TEXT, told INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE INDEX guard_jobs_open ON guard_jobs (id) WHERE state = 'open';

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
, voted TEXT) STRICT;

CREATE INDEX tray_agent ON tray (agent, id);

CREATE INDEX tray_open ON tray (id) WHERE state = 'open';

CREATE TABLE webhooks (
  digest TEXT PRIMARY KEY,           -- of its unit of trust: another address, secret or choice of events is another webhook
  cursor INTEGER NOT NULL,           -- the event that was taken up last
  disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1))
) STRICT;

CREATE TABLE webhook_retries (
  digest TEXT NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  event INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  due_ms INTEGER NOT NULL,
  PRIMARY KEY (digest, event)
) STRICT, WITHOUT ROWID;

CREATE INDEX webhook_retries_due ON webhook_retries (digest, due_ms);

CREATE INDEX instructions_answer_by ON instructions (answer_by_ms) WHERE state = 'waiting' AND answer_by_ms > 0;

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

CREATE TABLE tokens (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('read', 'operate', 'approve')),
  agents TEXT,
  digest BLOB NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL
, expires_ms INTEGER) STRICT;

CREATE UNIQUE INDEX guard_jobs_call ON guard_jobs (call) WHERE call IS NOT NULL;

CREATE TABLE "audit" (
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

CREATE INDEX audit_owner ON audit (owner, id);

CREATE INDEX audit_receiver ON audit (receiver, id);

CREATE TABLE subspaces (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL UNIQUE,        -- review:main~design#12.7
  base TEXT NOT NULL,                -- the space of its run
  name TEXT NOT NULL,
  run INTEGER NOT NULL,
  opener TEXT NOT NULL,              -- what its opener is called there,
  opener_key TEXT NOT NULL,          -- and the agent's key
  instruction INTEGER NOT NULL,      -- the work that it was opened in
  opened_ms INTEGER NOT NULL,
  closed_ms INTEGER
) STRICT;

CREATE UNIQUE INDEX subspaces_open ON subspaces (base, name) WHERE closed_ms IS NULL;

CREATE INDEX subspaces_opener ON subspaces (instruction) WHERE closed_ms IS NULL;

CREATE INDEX subspaces_base ON subspaces (base, number);

CREATE UNIQUE INDEX ballots_name ON ballots (run, name, space);

CREATE TABLE followers (
  name TEXT PRIMARY KEY,             -- metrics, or otel: and the digest of a unit of trust
  cursor INTEGER NOT NULL,           -- the event that was taken up last
  since_ms INTEGER NOT NULL,         -- when it began
  failing_ms INTEGER,                -- since when nothing could be delivered; null: the last time it could
  why TEXT,                          -- not
  dropped INTEGER NOT NULL DEFAULT 0 -- events that were refused for good
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,              -- JSON: the values of its labels, in order
  value REAL NOT NULL
) STRICT;

CREATE UNIQUE INDEX counters_name ON counters (name, labels);

CREATE TABLE model_spending (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  cost_usd REAL NOT NULL             -- of what has a known price
) STRICT;

CREATE UNIQUE INDEX model_spending_model ON model_spending (backend, model);

CREATE INDEX instructions_ended_at ON instructions (ended_ms) WHERE ended_ms IS NOT NULL;

CREATE TABLE nodes (
  name TEXT PRIMARY KEY,
  settings TEXT,                     -- JSON, as the project file has it; null: the file has it
  draining INTEGER NOT NULL DEFAULT 0,
  digest BLOB UNIQUE,                -- of the token by which it joins
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE project_identity (
  id TEXT NOT NULL
) STRICT;

CREATE INDEX agents_fenced ON agents (fenced_until_ms) WHERE fenced_until_ms > 0;

CREATE INDEX instructions_doubted ON instructions (space, trust) WHERE trust > 1;

CREATE INDEX instructions_doubtful ON instructions (agent, trust) WHERE trust > 1;

INSERT INTO "sqlite_sequence" VALUES ('audit', 0);

INSERT INTO "kept" VALUES (1, 0);

PRAGMA user_version = 31;
