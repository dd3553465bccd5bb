-- Tasks of a workspace: a graph in which one needs others, and who is at which. Times are the kernel's own milliseconds.

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
) STRICT;
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

PRAGMA user_version = 14;
