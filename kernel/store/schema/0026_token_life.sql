-- A token may have an end: one that a page was given is worth nothing after it. Without one it is valid until it is
-- taken back, as before.
ALTER TABLE tokens ADD COLUMN expires_ms INTEGER;

PRAGMA user_version = 26;
