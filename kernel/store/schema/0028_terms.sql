-- Each start of a project's kernel has a higher term than any before: nodes refuse a lower one. What a copy of the log
-- is put in place of begins far above what the original can come to meanwhile.
ALTER TABLE boots ADD COLUMN term INTEGER NOT NULL DEFAULT 0;
UPDATE boots SET term = id;

PRAGMA user_version = 28;
