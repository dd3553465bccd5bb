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

ALTER TABLE agents ADD COLUMN queue_limit INTEGER;             -- how many may wait for it; null: as many as usual

PRAGMA user_version = 6;
