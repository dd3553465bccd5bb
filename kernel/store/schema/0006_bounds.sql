-- What bounds need. Times are the kernel's own milliseconds (kernel.clock).

-- A vote that decides over a run is won by nobody without its quorum.
ALTER TABLE ballots ADD COLUMN strict INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 6;
