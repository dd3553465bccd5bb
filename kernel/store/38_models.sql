-- The model of each attempt, and models that stay closed until an attempt has probed them.
ALTER TABLE attempts ADD COLUMN model TEXT;
ALTER TABLE breakers ADD COLUMN lasting INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 38;
