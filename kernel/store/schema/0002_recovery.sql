-- What scheduling, failure and recovery remember. Times are the kernel's own milliseconds (kernel.clock).

-- Instructions: why one waits, what its tries have cost, and the prompt it began with.
ALTER TABLE instructions ADD COLUMN waits_for TEXT;            -- of a waiting one: protocol.instruction.WaitReason
ALTER TABLE instructions ADD COLUMN wait_key TEXT;             -- the breaker, or the instruction, it waits for
ALTER TABLE instructions ADD COLUMN parked_ms INTEGER NOT NULL DEFAULT 0;      -- when not_before_ms was set
ALTER TABLE instructions ADD COLUMN throttled_ms INTEGER NOT NULL DEFAULT 0;   -- first refusal for rate since the last entry
ALTER TABLE instructions ADD COLUMN kernel_deaths INTEGER NOT NULL DEFAULT 0;  -- in a row, without progress between them
ALTER TABLE instructions ADD COLUMN progress_mark INTEGER NOT NULL DEFAULT -1; -- entries and effects at the last of them
ALTER TABLE instructions ADD COLUMN promoted INTEGER NOT NULL DEFAULT 0;       -- by age or by hand: makes a step first
ALTER TABLE instructions ADD COLUMN by_mention INTEGER NOT NULL DEFAULT 0;     -- further mentions may join it until its lease
ALTER TABLE instructions ADD COLUMN prefix BLOB;               -- hash of the frozen prompt in blobs, set with its first entry
ALTER TABLE instructions ADD COLUMN continues INTEGER;         -- the incomplete instruction whose thread it takes up
ALTER TABLE instructions ADD COLUMN carried_steps INTEGER NOT NULL DEFAULT 0;  -- steps that came with that thread
ALTER TABLE instructions ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;      -- its one retry after a context overflow
ALTER TABLE instructions ADD COLUMN aside INTEGER NOT NULL DEFAULT 0;          -- entries before this one are told, not replayed
ALTER TABLE instructions ADD COLUMN asked_by INTEGER;          -- the instruction that asked for it and gets its answer
ALTER TABLE instructions ADD COLUMN told INTEGER NOT NULL DEFAULT 0;           -- who asked has been told how it ended
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

-- Agents: the restart policy's memory, and what holds all their work back.
ALTER TABLE agents ADD COLUMN crash_streak INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN crashed_ms INTEGER NOT NULL DEFAULT 0;           -- the last one
ALTER TABLE agents ADD COLUMN stepped INTEGER NOT NULL DEFAULT 0;              -- a step was completed since then
ALTER TABLE agents ADD COLUMN resume_at_ms INTEGER NOT NULL DEFAULT 0;         -- nothing is leased before
ALTER TABLE agents ADD COLUMN hold_key TEXT;                   -- the breaker that holds it back
ALTER TABLE agents ADD COLUMN hold_reason TEXT;
ALTER TABLE agents ADD COLUMN hold_until_ms INTEGER NOT NULL DEFAULT 0;        -- 0: until a person does something
ALTER TABLE agents ADD COLUMN provider TEXT NOT NULL DEFAULT '';               -- whose limit its workers count against
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

ALTER TABLE workflows ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;

-- Money and limits. What a person continues counts anew: the columns spent_* and assigned go back to 0.
ALTER TABLE workflows ADD COLUMN limited_by TEXT;              -- what keeps it: hops, instructions, budget, wall_time
ALTER TABLE workflows ADD COLUMN wall_time_ms INTEGER;         -- granted again by continue; deadline_ms is when it is over
ALTER TABLE workflows ADD COLUMN budget_tokens INTEGER;
ALTER TABLE workflows ADD COLUMN budget_usd REAL;
ALTER TABLE workflows ADD COLUMN spent_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflows ADD COLUMN spent_usd REAL NOT NULL DEFAULT 0;

CREATE TABLE spending (
  agent TEXT NOT NULL,
  minute INTEGER NOT NULL,           -- since 1970
  tokens INTEGER NOT NULL,
  usd REAL NOT NULL,                 -- of what has a known price
  worked_ms INTEGER NOT NULL DEFAULT 0,      -- by attempts that have ended
  PRIMARY KEY (agent, minute)
) STRICT, WITHOUT ROWID;
ALTER TABLE attempts ADD COLUMN worked_ms INTEGER NOT NULL DEFAULT 0;   -- set when it ends, as far as that is known

-- Schedules: one timer for each that counts now.
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

-- What is large or shared is kept once, by what it is.
CREATE TABLE blobs (
  hash BLOB PRIMARY KEY,             -- SHA-256 of the body
  body BLOB NOT NULL,
  part BLOB,                         -- of a frozen prompt: the hash of its system text, a blob of its own
  put_ms INTEGER NOT NULL            -- about when it was last put: what was put just now is not swept
) STRICT;

-- Entries: also the kernel's notes, and large bodies elsewhere.
ALTER TABLE entries RENAME TO entries_1;
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
INSERT INTO entries (instruction, k, epoch, kind, body, at_ms)
  SELECT instruction, k, epoch, kind, body, at_ms FROM entries_1;
DROP TABLE entries_1;

-- Retention and removal.
ALTER TABLE messages ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;            -- its text was removed
CREATE TABLE kept (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  events INTEGER NOT NULL            -- up to this seq, events may be missing
) STRICT;
INSERT INTO kept (id, events) VALUES (1, 0);

ALTER TABLE boots ADD COLUMN stopped_ms INTEGER;               -- a clean stop
ALTER TABLE boots ADD COLUMN progress_seq INTEGER NOT NULL DEFAULT 0;          -- newest event when it began
ALTER TABLE boots ADD COLUMN safe INTEGER NOT NULL DEFAULT 0;
ALTER TABLE boots ADD COLUMN machine TEXT;                     -- the boot of the machine it ran on
ALTER TABLE boots ADD COLUMN offset_ms INTEGER;                -- its time, less what had passed since that

-- Workspaces: what becomes of what is said, and the files that are written from it.
ALTER TABLE workflows ADD COLUMN workspace TEXT NOT NULL DEFAULT 'kept'
  CHECK (workspace IN ('kept', 'memory', 'none'));  -- memory: removed once it has ended; none: no channel
ALTER TABLE workflows ADD COLUMN mirror TEXT;                  -- the folder it is written to, as seen from the root
ALTER TABLE workflows ADD COLUMN exit_from TEXT;               -- the agent whose work gives the run's exit code
CREATE INDEX workflows_mirror ON workflows (mirror) WHERE mirror IS NOT NULL;
CREATE INDEX workflows_memory ON workflows (space) WHERE workspace = 'memory';

CREATE TABLE mirrors (
  space TEXT PRIMARY KEY,            -- empty: all; else its files are to be made anew
  seq INTEGER NOT NULL               -- up to here everything is in its files
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 2;
