-- Attempts whose processes nobody has seen leave: those at work, and for a moment those whose reply is there.
CREATE INDEX attempts_open ON attempts (instruction) WHERE ended_ms IS NULL;

PRAGMA user_version = 9;
