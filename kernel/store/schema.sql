-- The schema of the project's database. An empty database gets this script, then the numbered migrations beside it.
-- A released schema never changes, nor do its comments, which databases contain: a later version adds a migration.
--
-- SQLite does not enforce the references between these tables: the transitions of the store keep them.


-- The log
-- =======
-- Everything that happened, in order. Times are milliseconds of the kernel's clock (kernel.clock).

-- Starts of the project's kernel. Nodes refuse a term that is lower than one they have seen.
CREATE TABLE boots (
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  requeued INTEGER NOT NULL,
  stopped_ms INTEGER,               -- a clean stop
  progress_seq INTEGER NOT NULL DEFAULT 0,          -- newest event when it began
  safe INTEGER NOT NULL DEFAULT 0,
  machine TEXT,                     -- the boot of the machine it ran on
  offset_ms INTEGER,                -- its time, less what had passed since that
  skipped_ms INTEGER NOT NULL DEFAULT 0,
  term INTEGER NOT NULL DEFAULT 0   -- higher with each start
) STRICT;

-- The event log, from which clients follow the project.
CREATE TABLE events (
  seq INTEGER PRIMARY KEY,          -- never used twice: see events_numbered
  type TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  space TEXT,
  agent TEXT,                       -- name
  instruction INTEGER,
  message INTEGER,                  -- of type message: its body is read there, so that it exists once
  data BLOB
) STRICT;
-- In place of AUTOINCREMENT, which writes one more page per commit: its table is written only before the newest row is
-- deleted, and each INSERT reads it.
CREATE TRIGGER events_numbered BEFORE DELETE ON events WHEN old.seq = (SELECT max(seq) FROM events) BEGIN
  UPDATE sqlite_sequence SET seq = max(seq, old.seq) WHERE name = 'events';
END;

-- Messages of all spaces.
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY,          -- never used twice, like those of events
  kind TEXT NOT NULL CHECK (kind IN ('kickoff', 'said', 'reply', 'system', 'status', 'document', 'proposal', 'vote',
    'resolved', 'approval', 'due', 'done', 'failed', 'grant')),
  space TEXT NOT NULL,
  sender TEXT NOT NULL,
  addressed TEXT NOT NULL,          -- names, separated by blanks: directly or by a mention
  text TEXT NOT NULL,
  hops INTEGER NOT NULL,
  cause INTEGER,                    -- the instruction it comes from
  run INTEGER,                      -- the workflow row it belongs to
  at_ms INTEGER NOT NULL,
  cleared INTEGER NOT NULL DEFAULT 0                -- its text was removed
) STRICT;
CREATE TRIGGER messages_numbered BEFORE DELETE ON messages WHEN old.seq = (SELECT max(seq) FROM messages) BEGIN
  UPDATE sqlite_sequence SET seq = max(seq, old.seq) WHERE name = 'messages';
END;
CREATE INDEX messages_cause ON messages (cause, seq) WHERE cause IS NOT NULL;
CREATE INDEX messages_channel ON messages (space, seq) WHERE kind NOT IN ('approval', 'due', 'done', 'failed');
CREATE INDEX messages_run ON messages (run, seq)
  WHERE run IS NOT NULL AND kind NOT IN ('approval', 'due', 'done', 'failed');

-- The recipients of a message.
CREATE TABLE deliveries (
  message INTEGER NOT NULL,
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'injected', 'acked', 'dead')),
  instruction INTEGER,              -- null: delivered, but not woken by it
  PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_inbox ON deliveries (agent, space, message) WHERE state IN ('queued', 'leased', 'injected');
CREATE INDEX deliveries_instruction ON deliveries (instruction) WHERE instruction IS NOT NULL;

-- The start of the retained event log: a single row.
CREATE TABLE kept (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  events INTEGER NOT NULL           -- up to this seq, events may be missing
) STRICT;

-- The random id by which nodes know the project: at most one row.
CREATE TABLE project_identity (
  id TEXT NOT NULL
) STRICT;


-- Agents and spaces
-- =================

-- Agents, the state of their restart policy, and what holds all their work back.
CREATE TABLE agents (
  key TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  home_space TEXT,                  -- of an inline agent: the space it lives in
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
  cost_usd REAL,
  crash_streak INTEGER NOT NULL DEFAULT 0,
  crashed_ms INTEGER NOT NULL DEFAULT 0,            -- the last one
  stepped INTEGER NOT NULL DEFAULT 0,               -- a step was completed since then
  resume_at_ms INTEGER NOT NULL DEFAULT 0,          -- nothing is leased before
  hold_key TEXT,                    -- the breaker that holds it back
  hold_reason TEXT,
  hold_until_ms INTEGER NOT NULL DEFAULT 0,         -- 0: until a person acts
  provider TEXT NOT NULL DEFAULT '',                -- whose limit its workers count against
  queue_limit INTEGER,              -- how many may wait for it; null: as many as usual
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  answer_ms INTEGER NOT NULL DEFAULT 0,
  needs TEXT,                       -- JSON: requirements on the place it runs; null: none, so it runs here
  node TEXT NOT NULL DEFAULT '',    -- the node it worked on last
  fenced_until_ms INTEGER NOT NULL DEFAULT 0        -- nothing is leased before: a node may still have its processes
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_held ON agents (hold_key) WHERE hold_key IS NOT NULL;
CREATE INDEX agents_resume ON agents (resume_at_ms) WHERE resume_at_ms > 0;
CREATE INDEX agents_fenced ON agents (fenced_until_ms) WHERE fenced_until_ms > 0;

-- Members of a space, with what a workflow overrides of their agent's file.
CREATE TABLE members (
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  agent TEXT NOT NULL,
  backend TEXT,
  answer_ms INTEGER,
  needs TEXT,                       -- in place of agents.needs
  PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_agent ON members (agent);

-- Recent crashes of an agent, for its restart policy.
CREATE TABLE crashes (
  agent TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX crashes_agent ON crashes (agent, at_ms);

-- One timer for each schedule in effect.
CREATE TABLE timers (
  agent TEXT NOT NULL,              -- key
  home TEXT NOT NULL,               -- where its schedule stands: the agent's personal space, or a workflow's space
  schedule BLOB NOT NULL,           -- protocol.agent.Schedule as JSON
  period_ms INTEGER,                -- of an interval; null: cron, then next_ms and fired_ms are of the wall clock
  next_ms INTEGER NOT NULL,
  fired_ms INTEGER,                 -- last
  instruction INTEGER,              -- what it last became
  coalesced INTEGER NOT NULL DEFAULT 0,             -- times it came since then while that still waited for its turn
  PRIMARY KEY (agent, home)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_steady ON timers (next_ms) WHERE period_ms IS NOT NULL;
CREATE INDEX timers_wall ON timers (next_ms) WHERE period_ms IS NULL;

-- The status that an agent last reported in a space.
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

-- Spaces that an agent opened inside a run.
CREATE TABLE subspaces (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL UNIQUE,       -- review:main~design#12.7
  base TEXT NOT NULL,               -- the space of its run
  name TEXT NOT NULL,
  run INTEGER NOT NULL,
  opener TEXT NOT NULL,             -- what its opener is called there,
  opener_key TEXT NOT NULL,         -- and the agent's key
  instruction INTEGER NOT NULL,     -- the work that it was opened in
  opened_ms INTEGER NOT NULL,
  closed_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX subspaces_open ON subspaces (base, name) WHERE closed_ms IS NULL;
CREATE INDEX subspaces_opener ON subspaces (instruction) WHERE closed_ms IS NULL;
CREATE INDEX subspaces_base ON subspaces (base, number);


-- Workflows and instructions
-- ==========================

-- Runs of workflows. `awk continue` resets the columns spent_* and assigned.
CREATE TABLE workflows (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  tag TEXT NOT NULL,
  space TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('start', 'run')),
  file TEXT NOT NULL,
  definition BLOB NOT NULL,
  params BLOB NOT NULL,
  vouched BLOB NOT NULL,            -- what its start was trusted to do, as JSON
  state TEXT NOT NULL CHECK (state IN ('running', 'stopped')),
  status TEXT,
  exit_code INTEGER,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  deadline_ms INTEGER,
  hops_limit INTEGER NOT NULL,
  instructions_limit INTEGER NOT NULL,
  assigned INTEGER NOT NULL DEFAULT 0,
  limited INTEGER NOT NULL DEFAULT 0,               -- a limit holds its work back
  paused INTEGER NOT NULL DEFAULT 0,
  limited_by TEXT,                  -- what keeps it: hops, instructions, budget, wall_time
  wall_time_ms INTEGER,             -- granted again by continue; deadline_ms is when it is over
  budget_tokens INTEGER,
  budget_usd REAL,
  spent_tokens INTEGER NOT NULL DEFAULT 0,
  spent_usd REAL NOT NULL DEFAULT 0,
  -- memory: removed once it has ended; none: no channel
  workspace TEXT NOT NULL DEFAULT 'kept' CHECK (workspace IN ('kept', 'memory', 'none')),
  mirror TEXT,                      -- the folder it is written to, as seen from the root
  exit_from TEXT,                   -- the agent whose work gives the run's exit code
  approval TEXT,                    -- of this run, whatever its agents' files say
  attended INTEGER NOT NULL DEFAULT 0,              -- a user watches it and may approve
  verdict TEXT CHECK (verdict IN ('yes', 'no')),    -- what the vote decided that decides over it
  bound INTEGER NOT NULL DEFAULT 0, -- workspace.bind: its words are kept until cleared
  began_on TEXT NOT NULL DEFAULT '',                -- the branch its working trees began from; '': none
  held_kickoff BLOB,
  open INTEGER NOT NULL DEFAULT 0   -- every agent of the project can be mentioned in its space
) STRICT;
CREATE UNIQUE INDEX workflows_running ON workflows (space) WHERE state = 'running';
CREATE INDEX workflows_space ON workflows (space, id);
CREATE INDEX workflows_mirror ON workflows (mirror) WHERE mirror IS NOT NULL;
CREATE INDEX workflows_memory ON workflows (space) WHERE workspace = 'memory';
CREATE UNIQUE INDEX workflows_running_at ON workflows (name, tag) WHERE state = 'running';
CREATE INDEX workflows_place ON workflows (name, tag, id);
CREATE INDEX workflows_mirrored ON workflows (id) WHERE mirror IS NOT NULL;

-- The unit of work: one or more messages that an agent handles.
CREATE TABLE instructions (
  id INTEGER PRIMARY KEY,           -- never used twice, like those of events
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  run INTEGER,
  lane INTEGER NOT NULL CHECK (lane IN (0, 1, 2)),
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'running', 'yielded', 'waiting', 'done', 'incomplete',
    'failed', 'dead', 'cancelled')),
  epoch INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,              -- charged, with the one that runs
  crashes INTEGER NOT NULL DEFAULT 0,               -- attempts that ended in a crash; charged here and not above
  preempted INTEGER NOT NULL DEFAULT 0,
  entries INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0,
  message INTEGER NOT NULL,         -- the message it was made of
  hops INTEGER NOT NULL,
  vouched BLOB,                     -- what this message was trusted to have done, as JSON
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
  cost_usd REAL,
  waits_for TEXT,                   -- of a waiting one: protocol.instruction.WaitReason
  wait_key TEXT,                    -- the breaker, or the instruction, it waits for
  parked_ms INTEGER NOT NULL DEFAULT 0,             -- when not_before_ms was set
  throttled_ms INTEGER NOT NULL DEFAULT 0,          -- first refusal for rate since the last entry
  kernel_deaths INTEGER NOT NULL DEFAULT 0,         -- in a row, without progress between them
  progress_mark INTEGER NOT NULL DEFAULT -1,        -- entries and effects at the last of them
  promoted INTEGER NOT NULL DEFAULT 0,              -- by age or by hand: makes a step first
  by_mention INTEGER NOT NULL DEFAULT 0,            -- further mentions may join it until its lease
  prefix BLOB,                      -- hash of the frozen prompt in blobs, set with its first entry
  continues INTEGER,                -- the incomplete instruction whose thread it takes up
  carried_steps INTEGER NOT NULL DEFAULT 0,         -- steps that came with that thread
  compacted INTEGER NOT NULL DEFAULT 0,             -- its one retry after a context overflow
  aside INTEGER NOT NULL DEFAULT 0, -- entries before this one are told, not replayed
  asked_by INTEGER,                 -- the instruction that asked for it and gets its answer
  told INTEGER NOT NULL DEFAULT 0,  -- the instruction that asked was notified of its end
  model TEXT,                       -- of its last attempt, or else its backend; null: none was begun
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  dismissed INTEGER NOT NULL DEFAULT 0,
  answer_by_ms INTEGER NOT NULL DEFAULT 0,
  -- the least trusted input that its prompt, session and tools showed: 0 user, 1 agent, 2 tool, 3 web
  trust INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TRIGGER instructions_numbered BEFORE DELETE ON instructions
WHEN old.id = (SELECT max(id) FROM instructions) BEGIN
  UPDATE sqlite_sequence SET seq = max(seq, old.id) WHERE name = 'instructions';
END;
CREATE UNIQUE INDEX one_live ON instructions (agent) WHERE state IN ('leased', 'running');
CREATE INDEX instructions_queue ON instructions (agent, lane, id, not_before_ms) WHERE state IN ('queued', 'yielded');
CREATE INDEX instructions_due ON instructions (not_before_ms)
  WHERE state IN ('queued', 'yielded') AND not_before_ms > 0;
CREATE INDEX instructions_open ON instructions (space, id)
  WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting');
CREATE INDEX instructions_dead ON instructions (ended_ms) WHERE state IN ('failed', 'dead');
CREATE INDEX instructions_run ON instructions (run, state) WHERE run IS NOT NULL;
CREATE INDEX instructions_waiting ON instructions (wait_key, lane, id) WHERE state = 'waiting';
CREATE INDEX instructions_parked ON instructions (agent, lane, id) WHERE state = 'waiting';
CREATE INDEX instructions_timed ON instructions (not_before_ms) WHERE state = 'waiting' AND not_before_ms > 0;
CREATE INDEX instructions_aging ON instructions (enqueued_ms) WHERE state IN ('queued', 'yielded') AND lane > 0;
CREATE INDEX instructions_joining ON instructions (agent, space, lane)
  WHERE state = 'queued' AND by_mention = 1 AND epoch = 0;
CREATE INDEX instructions_ended ON instructions (agent, space, ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX instructions_continued ON instructions (continues) WHERE continues IS NOT NULL;
CREATE INDEX instructions_asked ON instructions (asked_by, id) WHERE asked_by IS NOT NULL AND told = 0;
CREATE INDEX instructions_answer_by ON instructions (answer_by_ms) WHERE state = 'waiting' AND answer_by_ms > 0;
CREATE INDEX instructions_doubted ON instructions (space, trust) WHERE trust > 1;
CREATE INDEX instructions_doubtful ON instructions (agent, trust) WHERE trust > 1;

-- Attempts of an instruction, with the hash of the token of each.
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
  worked_ms INTEGER NOT NULL DEFAULT 0,             -- set when it ends, as far as that is known
  scopes TEXT,
  node TEXT NOT NULL DEFAULT '',    -- the node it runs on; '': the kernel's own machine
  PRIMARY KEY (instruction, epoch)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX attempts_token ON attempts (token_hash);
CREATE INDEX attempts_open ON attempts (instruction) WHERE ended_ms IS NULL;

-- The transcript of an instruction.
CREATE TABLE entries (
  instruction INTEGER NOT NULL,
  k INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('reply', 'tool', 'session', 'note')),
  body BLOB NOT NULL,               -- empty where it is a blob
  blob BLOB,                        -- the hash of the body in blobs
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (instruction, k)
) STRICT, WITHOUT ROWID;

-- Results of tool calls, so that a repeated call takes effect once.
CREATE TABLE effects (
  instruction INTEGER NOT NULL,
  call_key TEXT NOT NULL,
  result BLOB NOT NULL,
  PRIMARY KEY (instruction, call_key)
) STRICT, WITHOUT ROWID;

-- Notes that an instruction leaves to the next one.
CREATE TABLE handovers (
  instruction INTEGER PRIMARY KEY,
  body BLOB NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;

-- Usage of the kernel's tools by an instruction that has not ended, over all its attempts.
CREATE TABLE quotas (
  instruction INTEGER PRIMARY KEY,
  messages INTEGER NOT NULL DEFAULT 0,
  instructions INTEGER NOT NULL DEFAULT 0,          -- of others, which its messages became
  approvals INTEGER NOT NULL DEFAULT 0,             -- that a person was asked for
  feedback INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, -- of text that is kept
  told TEXT NOT NULL DEFAULT ''     -- which of these were reached, and an event said so
) STRICT;

-- Large or shared content, stored once under its hash.
CREATE TABLE blobs (
  hash BLOB PRIMARY KEY,            -- SHA-256 of the body
  body BLOB NOT NULL,
  part BLOB,                        -- of a frozen prompt: the hash of its system text, a blob of its own
  put_ms INTEGER NOT NULL           -- about when it was last stored: recent blobs are not swept
) STRICT;

-- Long texts of messages, stored as blobs.
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


-- Limits and costs
-- ================

-- Circuit breakers of providers and programs.
CREATE TABLE breakers (
  key TEXT PRIMARY KEY,
  reason TEXT NOT NULL,             -- protocol.instruction.WaitReason
  state TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
  open_until_ms INTEGER NOT NULL DEFAULT 0,         -- of an open one; 0: until a person acts
  opens INTEGER NOT NULL DEFAULT 0, -- in a row
  failures BLOB NOT NULL,           -- JSON: when it failed lately, while closed
  probe INTEGER,                    -- of a half-open one: the instruction that may try
  changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Usage of an agent per minute.
CREATE TABLE spending (
  agent TEXT NOT NULL,
  minute INTEGER NOT NULL,          -- since 1970
  tokens INTEGER NOT NULL,
  usd REAL NOT NULL,                -- of what has a known price
  worked_ms INTEGER NOT NULL DEFAULT 0,             -- by attempts that have ended
  PRIMARY KEY (agent, minute)
) STRICT, WITHOUT ROWID;

-- Total usage per model.
CREATE TABLE model_spending (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  cost_usd REAL NOT NULL            -- of what has a known price
) STRICT;
CREATE UNIQUE INDEX model_spending_model ON model_spending (backend, model);

-- Counters of the metrics endpoint.
CREATE TABLE counters (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,             -- JSON: the values of its labels, in order
  value REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX counters_name ON counters (name, labels);

-- Positions in the event log of exporters.
CREATE TABLE followers (
  name TEXT PRIMARY KEY,            -- metrics, or otel: and the digest of a unit of trust
  cursor INTEGER NOT NULL,          -- the event that was taken up last
  since_ms INTEGER NOT NULL,        -- when it began
  failing_ms INTEGER,               -- since when nothing could be delivered; null: the last time it could
  why TEXT,                         -- not
  dropped INTEGER NOT NULL DEFAULT 0                -- events that were refused for good
) STRICT, WITHOUT ROWID;


-- Tasks, proposals and rules
-- ==========================

-- Tasks of a space.
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  n INTEGER NOT NULL,               -- its number there: t3
  key TEXT,                         -- the planner's name for it
  title TEXT NOT NULL,
  text TEXT NOT NULL,
  for_name TEXT,                    -- the member that gets it once it is ready; null: any member that claims it
  parent INTEGER,                   -- n of the task that it is a part of
  found_in INTEGER,                 -- n of the task that was worked on when it was planned
  files BLOB NOT NULL,              -- JSON: globs of files that only the holder may change while it is claimed
  command TEXT,                     -- what checks that it is done
  vouched INTEGER NOT NULL,         -- the command is a person's or of a trusted file: it needs no approval
  confined INTEGER NOT NULL,        -- the command is that of a confined agent, and run like it
  on_failure TEXT CHECK (on_failure IN ('hold', 'skip', 'cancel')),
  state TEXT NOT NULL CHECK (state IN ('open', 'ready', 'claimed', 'done', 'failed', 'cancelled')),
  creator TEXT NOT NULL,            -- a member, user, or system for the workflow's file
  hops INTEGER NOT NULL,            -- of the message that planned it
  created_ms INTEGER NOT NULL,
  ready_ms INTEGER,
  given_out INTEGER NOT NULL DEFAULT 0,             -- how often it was made an instruction
  instruction INTEGER,              -- the one it was given out as, or was claimed in, last
  holder TEXT,                      -- who has claimed it,
  epoch INTEGER,                    -- and the attempt of the instruction that did; null: a person
  claimed_ms INTEGER,
  result TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  ended_ms INTEGER,
  ended_by TEXT,
  handed_by INTEGER                 -- the last instruction on it that left a hand-over
) STRICT;
CREATE UNIQUE INDEX tasks_number ON tasks (space, n);
CREATE INDEX tasks_key ON tasks (space, key, n) WHERE key IS NOT NULL;
CREATE INDEX tasks_state ON tasks (space, state, n);
CREATE INDEX tasks_instruction ON tasks (instruction) WHERE instruction IS NOT NULL AND state IN ('ready', 'claimed');
CREATE INDEX tasks_unfinished ON tasks (state, space) WHERE state IN ('open', 'ready');

-- Dependencies between tasks.
CREATE TABLE task_needs (
  task INTEGER NOT NULL,            -- tasks.id of the one that waits
  needs INTEGER NOT NULL,           -- tasks.id of the one that it waits for
  PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_needs_needed ON task_needs (needs, task);

-- Proposals that members vote on.
CREATE TABLE ballots (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  run INTEGER NOT NULL,             -- the workflow row it belongs to
  name TEXT NOT NULL,               -- its id for those who vote
  type TEXT NOT NULL CHECK (type IN ('election', 'decision', 'approval', 'assignment')),
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  options BLOB NOT NULL,            -- JSON: [{id, label}, ...]
  rule TEXT NOT NULL CHECK (rule IN ('plurality', 'majority', 'unanimous')),
  quorum INTEGER NOT NULL,          -- minimum number of votes
  tie_breaker TEXT CHECK (tie_breaker IN ('first', 'random', 'creator-decides')),
  binding INTEGER NOT NULL,
  creator TEXT NOT NULL,            -- what the agent is called in the space, or user
  creator_key TEXT,                 -- the agent's key; null: a person
  hops INTEGER NOT NULL,            -- of the message that announced it
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,      -- an open one ends then
  state TEXT NOT NULL CHECK (state IN ('open', 'resolved', 'expired', 'cancelled')),
  tie_told INTEGER NOT NULL DEFAULT 0,              -- its creator knows that a tie is to be broken
  winner TEXT,
  why TEXT CHECK (why IN ('quorum', 'settled', 'creator', 'deadline', 'cancelled')),
  reason TEXT NOT NULL DEFAULT '',  -- of a cancellation
  ended_ms INTEGER,
  ended_by TEXT,
  salt TEXT NOT NULL DEFAULT '',    -- random and secret: lots are drawn from it
  strict INTEGER NOT NULL DEFAULT 0,                -- without its quorum no option wins
  binds BLOB,
  grants INTEGER NOT NULL DEFAULT 0 -- so many have to say yes; 0: by its rule and quorum
) STRICT;
CREATE INDEX ballots_space ON ballots (space, id);
CREATE INDEX ballots_open ON ballots (expires_ms) WHERE state = 'open';
CREATE UNIQUE INDEX ballots_name ON ballots (run, name, space);

-- Members that may vote on a proposal.
CREATE TABLE electors (
  ballot INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (ballot, name)
) STRICT, WITHOUT ROWID;

-- Votes on a proposal.
CREATE TABLE votes (
  ballot INTEGER NOT NULL,
  voter TEXT NOT NULL,              -- an elector's name, or user
  n INTEGER NOT NULL,               -- its place among the votes of the ballot
  choice TEXT NOT NULL,
  reason TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (ballot, voter)
) STRICT, WITHOUT ROWID;

-- Rules of a space: what happens on which event.
CREATE TABLE rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  author TEXT NOT NULL,             -- what the agent is called in the space; user; system: the workflow's file
  author_key TEXT,                  -- the agent's key; null: a person, or a file
  scopes TEXT NOT NULL,             -- of the agent that defined it, with spaces between
  enabled INTEGER NOT NULL,
  message INTEGER NOT NULL DEFAULT 0,               -- that defined it
  defined_ms INTEGER NOT NULL,
  fired INTEGER NOT NULL DEFAULT 0,
  fired_ms INTEGER,
  spec BLOB NOT NULL                -- JSON: protocol.rules.RuleSpec
) STRICT;
CREATE UNIQUE INDEX rules_name ON rules (space, name);
CREATE INDEX rules_enabled ON rules (space, id) WHERE enabled = 1;

-- Firings of a rule that wait for a proposal.
CREATE TABLE held_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  proposal TEXT NOT NULL,           -- by which they agree
  rule INTEGER NOT NULL,
  version INTEGER NOT NULL,
  author TEXT NOT NULL,
  author_key TEXT,
  scopes TEXT NOT NULL,
  spec BLOB NOT NULL,
  occasion BLOB NOT NULL            -- JSON: kernel.policy.rules.Occasion
) STRICT;
CREATE INDEX held_rules_proposal ON held_rules (space, proposal);

-- What rules have created. Planned starts of workflows are carried out after the commit.
CREATE TABLE creations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,              -- of the rule
  root TEXT NOT NULL,               -- the space, opened or started by a person, that it descends from
  depth INTEGER NOT NULL,           -- creations from there to this one
  rule TEXT NOT NULL,
  scopes TEXT,                      -- of the rule's author; null: a person or a file
  sender TEXT NOT NULL,
  verb TEXT NOT NULL CHECK (verb IN ('create_agent', 'open_space', 'start_workflow')),
  spec BLOB NOT NULL,               -- JSON
  state TEXT NOT NULL CHECK (state IN ('planned', 'done', 'refused')),
  made TEXT,                        -- a space, or the key of an agent
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX creations_root ON creations (root, verb, at_ms);
CREATE INDEX creations_made ON creations (made) WHERE made IS NOT NULL;
CREATE INDEX creations_planned ON creations (id) WHERE state = 'planned';


-- Permissions
-- ===========

-- Tool calls that wait for an approval, bound to the call: its key, the tool and its input.
CREATE TABLE approvals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  instruction INTEGER NOT NULL,
  epoch INTEGER NOT NULL,           -- of the attempt that asked last
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  call_key TEXT,                    -- null: the client names no calls, or the work was restarted
  tool TEXT NOT NULL,
  input BLOB NOT NULL,              -- canonical JSON; empty where it is a blob
  blob BLOB,                        -- its hash in blobs
  digest BLOB NOT NULL,             -- SHA-256 of the canonical input
  why TEXT NOT NULL,                -- the agent's own words
  state TEXT NOT NULL CHECK (state IN ('open', 'granted', 'denied', 'expired')),
  requested_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,      -- an open one is refused then
  waits_ms INTEGER NOT NULL,        -- a run is kept open for it until then; 0: the run ends
  held INTEGER NOT NULL,            -- the call itself is kept waiting, until it has the decision
  told INTEGER NOT NULL DEFAULT 0,  -- the instruction that asked has the decision: it is used up
  decided_ms INTEGER,
  decided_by TEXT,
  reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX approvals_call ON approvals (instruction, tool, digest, call_key) WHERE call_key IS NOT NULL;
CREATE INDEX approvals_instruction ON approvals (instruction, state);
CREATE INDEX approvals_open ON approvals (expires_ms) WHERE state = 'open';
CREATE INDEX approvals_blob ON approvals (blob) WHERE blob IS NOT NULL;

-- Calls that a person approved in advance.
CREATE TABLE approval_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT,                       -- key; null: every agent
  tool TEXT NOT NULL,
  pattern TEXT NOT NULL,            -- of the whole canonical input; * is any text
  created_by TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX approval_rules_tool ON approval_rules (tool, id);

-- Permissions of agents beyond their files, and who granted them.
CREATE TABLE grants (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  run INTEGER,                      -- the workflow row it counts in; null: an agent's own space
  agent TEXT NOT NULL,              -- the key of who has it,
  name TEXT NOT NULL,               -- and what that one is called in the space
  scope TEXT,                       -- what it opens; null: it is the answer to one request
  approval INTEGER,                 -- that request
  giver TEXT NOT NULL,              -- what the giver is called in the space, or user
  giver_key TEXT,                   -- the agent's key; null: a person
  parent INTEGER,                   -- the grant that the giver has it by; null: its own file, or a person
  warrant INTEGER,                  -- the grant by which it may give anything; null: likewise
  until_ms INTEGER,
  uses INTEGER,
  used INTEGER NOT NULL DEFAULT 0,
  given_ms INTEGER NOT NULL,
  revoked_ms INTEGER,
  revoked_by TEXT
) STRICT;
CREATE INDEX grants_standing ON grants (agent, space) WHERE revoked_ms IS NULL AND scope IS NOT NULL;
CREATE INDEX grants_space ON grants (space, id);

-- API tokens. Only the digest of a token is stored.
CREATE TABLE tokens (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('read', 'operate', 'approve')),
  agents TEXT,
  digest BLOB NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER                -- null: valid until it is revoked
) STRICT;

-- Responses to requests with an idempotency key.
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


-- Documents and working trees
-- ===========================
-- Files that the kernel writes, and git.

-- Progress of the files that are written from the log.
CREATE TABLE mirrors (
  space TEXT PRIMARY KEY,           -- empty: all; else its files are to be written again
  seq INTEGER NOT NULL              -- up to here everything is in its files
) STRICT, WITHOUT ROWID;

-- Shared documents of a space.
CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  version INTEGER NOT NULL,         -- the newest; they count by one, also through a deletion
  content TEXT NOT NULL,            -- of that version; '' of one that is deleted
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX documents_file ON documents (space, file);

-- All versions of a document, as steps back from its newest one.
CREATE TABLE document_versions (
  document INTEGER NOT NULL,
  version INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('create', 'write', 'append', 'merge', 'accept', 'delete')),
  message INTEGER NOT NULL,
  author TEXT NOT NULL,             -- what the agent is called in the space, or user
  instruction INTEGER,              -- null: a person
  run INTEGER,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  added INTEGER NOT NULL,           -- lines
  removed INTEGER NOT NULL,
  undo BLOB NOT NULL                -- JSON: [[start, end, [line, ...]], ...] makes the version before of this one
) STRICT;
CREATE UNIQUE INDEX document_versions_number ON document_versions (document, version);

-- Owners of documents by pattern.
CREATE TABLE document_owners (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  pattern TEXT NOT NULL,
  owner TEXT NOT NULL
) STRICT;
CREATE INDEX document_owners_space ON document_owners (space, id);

-- Files that documents were written to.
CREATE TABLE document_mirrors (
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  folder TEXT NOT NULL,             -- of the workspace, as seen from the project's root
  version INTEGER NOT NULL,
  digest BLOB NOT NULL,             -- SHA-256 of what was in the file then
  told BLOB,                        -- that of what a person wrote since, which is not taken, once that was told
  PRIMARY KEY (space, file)
) STRICT, WITHOUT ROWID;

-- Working trees of members of a run. A tree that all members of a run share has no agent: its key is ''.
CREATE TABLE worktrees (
  run INTEGER NOT NULL,
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'made', 'removing', 'kept', 'gone')),
  repository TEXT NOT NULL,         -- the directory that holds the objects and branches of the project's git
  base TEXT NOT NULL,               -- the commit it began with
  branch TEXT NOT NULL,
  path TEXT NOT NULL,
  folder TEXT NOT NULL,             -- the project, as seen from the top of a working tree
  git_dir TEXT NOT NULL DEFAULT '', -- what is this tree's own in the repository; once it was made
  why TEXT NOT NULL DEFAULT '',
  follows TEXT NOT NULL DEFAULT '', -- the member whose last commit it is brought to
  commits TEXT NOT NULL DEFAULT 'auto' CHECK (commits IN ('auto', 'manual')),
  tip TEXT NOT NULL DEFAULT '',     -- the last commit of its branch; '': as it began
  ahead INTEGER NOT NULL DEFAULT 0, -- commits on it since it began
  note TEXT NOT NULL DEFAULT '',    -- why it was not brought there for its instruction
  confined INTEGER NOT NULL DEFAULT 0,              -- an agent that worked in it was confined at some time
  PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX worktrees_path ON worktrees (path) WHERE state <> 'gone';
CREATE INDEX worktrees_space ON worktrees (space, run);

-- Merges of agents' branches.
CREATE TABLE landings (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  space TEXT NOT NULL,
  repository TEXT NOT NULL,         -- as of its working trees
  state TEXT NOT NULL CHECK (state IN ('requested', 'merging', 'checked', 'merged', 'refused')),
  branch TEXT NOT NULL,             -- what is merged into, without refs/heads/
  terms BLOB NOT NULL,              -- JSON: whose branches, how, what checks the result, whether it is given back
  delivers INTEGER NOT NULL,        -- asked for by the workflow's file, at the end of its run
  after INTEGER NOT NULL,           -- the newest instruction of the run when it was asked for
  tries INTEGER NOT NULL DEFAULT 0, -- how often it was begun
  expected TEXT NOT NULL DEFAULT '',                -- once checked: the commit that the branch is moved from,
  tip TEXT NOT NULL DEFAULT '',     -- and the one that it is moved to, with all that lands together,
  result TEXT NOT NULL DEFAULT '',  -- and the one of these that is this landing's own
  outcome BLOB NOT NULL DEFAULT x'7b7d',            -- JSON: what came of it, as far as it is known
  requested_ms INTEGER NOT NULL,
  ended_ms INTEGER
) STRICT;
CREATE INDEX landings_open ON landings (id) WHERE state IN ('requested', 'merging', 'checked');
CREATE INDEX landings_run ON landings (run, id);
CREATE INDEX landings_space ON landings (space);


-- Memory
-- ======

-- Versions of an agent's soul.yaml.
CREATE TABLE soul_versions (
  agent TEXT NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,               -- what soul.yaml says
  diff TEXT NOT NULL,               -- from the version before
  reason TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,              -- null: a person
  proposal INTEGER,
  at_ms INTEGER NOT NULL,
  written INTEGER NOT NULL,         -- 0: it is still to be written into the file
  PRIMARY KEY (agent, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX soul_versions_unwritten ON soul_versions (agent) WHERE written = 0;

-- Work of a memory guard.
CREATE TABLE guard_jobs (
  id INTEGER PRIMARY KEY,
  instruction INTEGER NOT NULL UNIQUE,
  space TEXT NOT NULL,              -- that it is about
  evidence BLOB NOT NULL,           -- JSON: the messages it was shown, and whose trays there are
  state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed')),
  purpose TEXT NOT NULL DEFAULT 'extract' CHECK (purpose IN ('extract', 'observe', 'write', 'ask')),
  call TEXT,
  told INTEGER NOT NULL DEFAULT 0   -- 1: what it changed is in the audit
) STRICT;
CREATE INDEX guard_jobs_open ON guard_jobs (id) WHERE state = 'open';
CREATE UNIQUE INDEX guard_jobs_call ON guard_jobs (call) WHERE call IS NOT NULL;

-- Changes that agents propose to documents, souls and memories, and the decisions on them.
CREATE TABLE decisions (
  kind TEXT NOT NULL,               -- a row of kernel.store.decisions
  number INTEGER NOT NULL,
  owner TEXT NOT NULL,              -- the key of the agent whose soul or memory it is; of a document: its space
  space TEXT NOT NULL,
  subject TEXT NOT NULL,            -- what is changed: a file, a trait, the key of an entry,
  content TEXT NOT NULL,            -- and its new text
  reason TEXT NOT NULL,
  author TEXT,                      -- of a document: the agent's name in the space, or user
  instruction INTEGER,              -- null: a person, or a guard
  run INTEGER,
  at_ms INTEGER NOT NULL,
  detail TEXT NOT NULL,             -- JSON: what only this kind has
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'accepted', 'approved', 'rejected')),
  decided_by TEXT,
  decision_reason TEXT,
  version INTEGER,                  -- of the document or soul with the change
  vote TEXT,                        -- that approved it; its file is still to be written while it is open
  PRIMARY KEY (kind, number)
) STRICT;
CREATE INDEX decisions_owner ON decisions (owner, kind, state, number);
CREATE INDEX decisions_open ON decisions (kind, number) WHERE state = 'open';

-- Numbers of decisions: the last one of each kind.
CREATE TABLE decision_numbers (
  kind TEXT PRIMARY KEY,
  newest INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Access to an agent's memory by others.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('ask', 'share', 'refused', 'moved')),
  at_ms INTEGER NOT NULL,
  owner TEXT NOT NULL,              -- whose memory it is: the key of its agent
  owner_name TEXT NOT NULL,
  receiver TEXT NOT NULL,           -- who was given it
  receiver_name TEXT NOT NULL,
  space TEXT NOT NULL,
  instruction INTEGER NOT NULL,     -- that asked, or shared, or wrote
  query TEXT NOT NULL,              -- '' of what was shared or written
  given BLOB NOT NULL,              -- JSON: [{key, visibility, trust, characters, cut}, ...]
  withheld INTEGER NOT NULL,        -- keys that were to be shared, and may not be
  note TEXT NOT NULL DEFAULT ''     -- what a guard's model did with it, as text of the kernel
) STRICT;
CREATE INDEX audit_owner ON audit (owner, id);
CREATE INDEX audit_receiver ON audit (receiver, id);


-- The outside
-- ===========

-- Feedback of agents about the work itself.
CREATE TABLE feedback (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  author TEXT NOT NULL,             -- an agent's name in the space, or user
  space TEXT,                       -- null: the user's
  instruction INTEGER,
  call_key TEXT,
  text TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX feedback_call ON feedback (instruction, call_key) WHERE call_key IS NOT NULL;
CREATE INDEX feedback_space ON feedback (space) WHERE space IS NOT NULL;

-- Positions of webhooks in the event log.
CREATE TABLE webhooks (
  -- of its unit of trust: another address, secret or choice of events is another webhook
  digest TEXT PRIMARY KEY,
  cursor INTEGER NOT NULL,          -- the event that was taken up last
  disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1))
) STRICT;

-- Deliveries to a webhook that failed and are due again.
CREATE TABLE webhook_retries (
  digest TEXT NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  event INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  due_ms INTEGER NOT NULL,
  PRIMARY KEY (digest, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_retries_due ON webhook_retries (digest, due_ms);

-- Nodes that were added by hand, and changes to those of the project file.
CREATE TABLE nodes (
  name TEXT PRIMARY KEY,
  settings TEXT,                    -- JSON, as the project file has it; null: the file has it
  draining INTEGER NOT NULL DEFAULT 0,
  digest BLOB UNIQUE,               -- of the token by which it joins
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO kept (id, events) VALUES (1, 0);
INSERT INTO sqlite_sequence (name, seq) VALUES ('events', 0), ('messages', 0), ('instructions', 0);

PRAGMA user_version = 35;
