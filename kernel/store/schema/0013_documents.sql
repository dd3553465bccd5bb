-- Documents of workspaces. A version is part of the commit of the message that tells of it.

CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  version INTEGER NOT NULL,          -- the newest; they count by one, also through a deletion
  content TEXT NOT NULL,             -- of that version; '' of one that is deleted
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX documents_file ON documents (space, file);

CREATE TABLE document_versions (
  document INTEGER NOT NULL,
  version INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('create', 'write', 'append', 'merge', 'accept', 'delete')),
  message INTEGER NOT NULL,
  author TEXT NOT NULL,              -- what the agent is called in the space, or user
  instruction INTEGER,               -- null: a person
  run INTEGER,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  added INTEGER NOT NULL,            -- lines
  removed INTEGER NOT NULL,
  undo BLOB NOT NULL                 -- JSON: [[start, end, [line, ...]], ...] makes the version before of this one
) STRICT;
CREATE UNIQUE INDEX document_versions_number ON document_versions (document, version);

CREATE TABLE document_suggestions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  since INTEGER NOT NULL,            -- the version that it was made from; 0: there was none
  content TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,
  run INTEGER,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'accepted', 'rejected')),
  decided_by TEXT,
  decision_reason TEXT,
  version INTEGER                    -- of the document, once it is accepted
) STRICT;
CREATE INDEX document_suggestions_space ON document_suggestions (space, state, id);

-- Who owns what: of those that name a file, the newest says so. A run begins with none but its own.
CREATE TABLE document_owners (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  pattern TEXT NOT NULL,
  owner TEXT NOT NULL
) STRICT;
CREATE INDEX document_owners_space ON document_owners (space, id);

-- Files of documents in the folder of a workspace: the version that each had when it was last looked at.
CREATE TABLE document_mirrors (
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  folder TEXT NOT NULL,              -- of the workspace, as seen from the project's root
  version INTEGER NOT NULL,
  digest BLOB NOT NULL,              -- SHA-256 of what was in the file then
  told BLOB,                         -- that of what a person wrote since, which is not taken, once that was told
  PRIMARY KEY (space, file)
) STRICT, WITHOUT ROWID;

CREATE INDEX workflows_mirrored ON workflows (id) WHERE mirror IS NOT NULL;

-- JSON: the first message, which waits until the members have elected the owner of the documents; null: nothing waits.
ALTER TABLE workflows ADD COLUMN held_kickoff BLOB;

-- JSON: what a binding proposal decides about beside a run's verdict.
ALTER TABLE ballots ADD COLUMN binds BLOB;

PRAGMA user_version = 13;
