-- What bounds need. Times are the kernel's own milliseconds (kernel.clock).

-- A vote that decides over a run is won by nobody without its quorum.
ALTER TABLE ballots ADD COLUMN strict INTEGER NOT NULL DEFAULT 0;

-- What an instruction that has not ended has done through the kernel's tools, over all its attempts.
CREATE TABLE quotas (
  instruction INTEGER PRIMARY KEY,
  messages INTEGER NOT NULL DEFAULT 0,
  instructions INTEGER NOT NULL DEFAULT 0,   -- of others, which its messages became
  approvals INTEGER NOT NULL DEFAULT 0,      -- that a person was asked for
  feedback INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,          -- of text that is kept
  told TEXT NOT NULL DEFAULT ''              -- which of these were reached, and an event said so
) STRICT;

-- How much waits for each agent, kept up by the triggers below: nobody counts a queue to add to it.
CREATE TABLE queues (
  agent TEXT PRIMARY KEY,            -- key; those for whom nothing waits are not in here
  waiting INTEGER NOT NULL           -- instructions that are queued, yielded or waiting
) STRICT, WITHOUT ROWID;
INSERT INTO queues (agent, waiting)
  SELECT agent, count(*) FROM instructions WHERE state IN ('queued', 'yielded', 'waiting') GROUP BY agent;
CREATE TRIGGER instructions_put AFTER INSERT ON instructions WHEN NEW.state IN ('queued', 'yielded', 'waiting')
BEGIN
  INSERT INTO queues (agent, waiting) VALUES (NEW.agent, 1)
    ON CONFLICT (agent) DO UPDATE SET waiting = waiting + 1;
END;
CREATE TRIGGER instructions_back AFTER UPDATE OF state ON instructions
  WHEN NEW.state IN ('queued', 'yielded', 'waiting') AND OLD.state NOT IN ('queued', 'yielded', 'waiting')
BEGIN
  INSERT INTO queues (agent, waiting) VALUES (NEW.agent, 1)
    ON CONFLICT (agent) DO UPDATE SET waiting = waiting + 1;
END;
CREATE TRIGGER instructions_taken AFTER UPDATE OF state ON instructions
  WHEN OLD.state IN ('queued', 'yielded', 'waiting') AND NEW.state NOT IN ('queued', 'yielded', 'waiting')
BEGIN
  UPDATE queues SET waiting = waiting - 1 WHERE agent = OLD.agent;
  DELETE FROM queues WHERE agent = OLD.agent AND waiting <= 0;
END;
CREATE TRIGGER instructions_removed AFTER DELETE ON instructions WHEN OLD.state IN ('queued', 'yielded', 'waiting')
BEGIN
  UPDATE queues SET waiting = waiting - 1 WHERE agent = OLD.agent;
  DELETE FROM queues WHERE agent = OLD.agent AND waiting <= 0;
END;
ALTER TABLE agents ADD COLUMN queue_limit INTEGER;             -- how many may wait for it; null: as many as usual

PRAGMA user_version = 6;
