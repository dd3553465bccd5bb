-- The instruction that left a hand-over last of those that were at a task: whoever takes it up next is given that.
ALTER TABLE tasks ADD COLUMN handed_by INTEGER;

PRAGMA user_version = 16;
