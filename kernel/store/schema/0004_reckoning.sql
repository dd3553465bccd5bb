-- What retention and statistics reckon with.

-- How far the clock of this kernel is ahead of what is known to have passed since the last one, in ms; or behind.
ALTER TABLE boots ADD COLUMN skipped_ms INTEGER NOT NULL DEFAULT 0;

ALTER TABLE instructions ADD COLUMN model TEXT;                -- of its last attempt, or else its backend; null: none was begun

PRAGMA user_version = 4;
