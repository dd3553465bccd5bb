-- Recorded exchanges of an instruction with its model provider.
CREATE TABLE exchanges (
  instruction INTEGER NOT NULL,
  n INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  model TEXT NOT NULL,
  request BLOB NOT NULL,            -- hash in blobs
  response BLOB NOT NULL,           -- hash in blobs
  status INTEGER,                   -- NULL: there was no response
  at_ms INTEGER NOT NULL,
  ms INTEGER NOT NULL,
  PRIMARY KEY (instruction, n)
) STRICT, WITHOUT ROWID;

PRAGMA user_version = 37;
