-- Tokens that people make for programs of their own. Of a token only its digest is kept; no number is given twice, since
-- what was answered to a request is kept under it.
CREATE TABLE tokens (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('read', 'operate', 'approve')),
  agents TEXT,
  digest BLOB NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL
) STRICT;

PRAGMA user_version = 23;
