CREATE TABLE agents (
  key TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  home_space TEXT,                  -- of an inline agent: the space it lives in
  origin TEXT NOT NULL CHECK (origin IN ('file', 'inline', 'ephemeral')),
  file TEXT,
  definition BLOB,
  backend TEXT NOT NULL,
  model TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'stopped', 'error')),
  reason TEXT,
  restarts INTEGER NOT NULL DEFAULT 0,
  last_exit TEXT,
  last_event_ms INTEGER,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL,
  crash_streak INTEGER NOT NULL DEFAULT 0,
  crashed_ms INTEGER NOT NULL DEFAULT 0,            -- the last one
  stepped INTEGER NOT NULL DEFAULT 0,               -- a step was completed since then
  resume_at_ms INTEGER NOT NULL DEFAULT 0,          -- nothing is leased before
  hold_key TEXT,                    -- the breaker that holds it back
  hold_reason TEXT,
  hold_until_ms INTEGER NOT NULL DEFAULT 0,         -- 0: until a person acts
  provider TEXT NOT NULL DEFAULT '',                -- whose limit its workers count against
  queue_limit INTEGER,              -- how many may wait for it; null: as many as usual
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  answer_ms INTEGER NOT NULL DEFAULT 0,
  needs TEXT,                       -- JSON: requirements on the place it runs; null: none, so it runs here
  node TEXT NOT NULL DEFAULT '',    -- the node it worked on last
  fenced_until_ms INTEGER NOT NULL DEFAULT 0        -- nothing is leased before: a node may still have its processes
) STRICT, WITHOUT ROWID;
INSERT INTO agents VALUES('key 59 ''ü','name 60 ''ü','home_spac 61 ''ü','file','file 63 ''ü',X'000040FF','backend 65 ''ü','model 66 ''ü','active','reason 68 ''ü',69,'last_exit 70 ''ü',71,72,73,74,75.25,76,77,78,79,'hold_key 80 ''ü','hold_reas 81 ''ü',82,'provider 83 ''ü',84,85,86,'needs 87 ''ü','node 88 ''ü',89);
INSERT INTO agents VALUES('key 90 ''ü','name 91 ''ü',NULL,'ephemeral',NULL,NULL,'backend 96 ''ü','model 97 ''ü','error',NULL,100,NULL,NULL,103,104,105,NULL,107,108,109,110,NULL,NULL,113,'provider 114 ''ü',NULL,116,117,NULL,'node 119 ''ü',120);
CREATE INDEX agents_fenced ON agents (fenced_until_ms) WHERE fenced_until_ms > 0;
CREATE INDEX agents_held ON agents (hold_key) WHERE hold_key IS NOT NULL;
CREATE INDEX agents_resume ON agents (resume_at_ms) WHERE resume_at_ms > 0;
CREATE TABLE approval_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT,                       -- key; null: every agent
  tool TEXT NOT NULL,
  pattern TEXT NOT NULL,            -- of the whole canonical input; * is any text
  created_by TEXT NOT NULL,
  created_ms INTEGER NOT NULL
) STRICT;
INSERT INTO approval_rules VALUES(469,'agent 470 ''ü','tool 471 ''ü','pattern 472 ''ü','created_b 473 ''ü',474);
INSERT INTO approval_rules VALUES(475,NULL,'tool 477 ''ü','pattern 478 ''ü','created_b 479 ''ü',480);
CREATE INDEX approval_rules_tool ON approval_rules (tool, id);
CREATE TABLE approvals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  instruction INTEGER NOT NULL,
  epoch INTEGER NOT NULL,           -- of the attempt that asked last
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  call_key TEXT,                    -- null: the client names no calls, or the work was restarted
  tool TEXT NOT NULL,
  input BLOB NOT NULL,              -- canonical JSON; empty where it is a blob
  blob BLOB,                        -- its hash in blobs
  digest BLOB NOT NULL,             -- SHA-256 of the canonical input
  why TEXT NOT NULL,                -- the agent's own words
  state TEXT NOT NULL CHECK (state IN ('open', 'granted', 'denied', 'expired')),
  requested_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,      -- an open one is refused then
  waits_ms INTEGER NOT NULL,        -- a run is kept open for it until then; 0: the run ends
  held INTEGER NOT NULL,            -- the call itself is kept waiting, until it has the decision
  told INTEGER NOT NULL DEFAULT 0,  -- the instruction that asked has the decision: it is used up
  decided_ms INTEGER,
  decided_by TEXT,
  reason TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO approvals VALUES(427,428,429,'agent 430 ''ü','name 431 ''ü','space 432 ''ü','call_key 433 ''ü','tool 434 ''ü',X'0001B3FF',X'0001B4FF',X'0001B5FF','why 438 ''ü','open',440,441,442,443,444,445,'decided_b 446 ''ü','reason 447 ''ü');
INSERT INTO approvals VALUES(448,449,450,'agent 451 ''ü','name 452 ''ü','space 453 ''ü',NULL,'tool 455 ''ü',X'0001C8FF',NULL,X'0001CAFF','why 459 ''ü','expired',461,462,463,464,465,NULL,NULL,'reason 468 ''ü');
CREATE INDEX approvals_blob ON approvals (blob) WHERE blob IS NOT NULL;
CREATE UNIQUE INDEX approvals_call ON approvals (instruction, tool, digest, call_key) WHERE call_key IS NOT NULL;
CREATE INDEX approvals_instruction ON approvals (instruction, state);
CREATE INDEX approvals_open ON approvals (expires_ms) WHERE state = 'open';
CREATE TABLE attempts (
  instruction INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  n INTEGER NOT NULL,
  token_hash BLOB NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  outcome TEXT,
  exit TEXT,
  stderr_tail TEXT,
  worked_ms INTEGER NOT NULL DEFAULT 0,             -- set when it ends, as far as that is known
  scopes TEXT,
  node TEXT NOT NULL DEFAULT '',    -- the node it runs on; '': the kernel's own machine
  PRIMARY KEY (instruction, epoch)
) STRICT, WITHOUT ROWID;
INSERT INTO attempts VALUES(295,296,297,X'00012AFF',299,300,'outcome 301 ''ü','exit 302 ''ü','stderr_ta 303 ''ü',304,'scopes 305 ''ü','node 306 ''ü');
INSERT INTO attempts VALUES(307,308,309,X'000136FF',311,NULL,NULL,NULL,NULL,316,NULL,'node 318 ''ü');
CREATE INDEX attempts_open ON attempts (instruction) WHERE ended_ms IS NULL;
CREATE UNIQUE INDEX attempts_token ON attempts (token_hash);
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('ask', 'share', 'refused', 'moved')),
  at_ms INTEGER NOT NULL,
  owner TEXT NOT NULL,              -- whose memory it is: the key of its agent
  owner_name TEXT NOT NULL,
  receiver TEXT NOT NULL,           -- who was given it
  receiver_name TEXT NOT NULL,
  space TEXT NOT NULL,
  instruction INTEGER NOT NULL,     -- that asked, or shared, or wrote
  query TEXT NOT NULL,              -- '' of what was shared or written
  given BLOB NOT NULL,              -- JSON: [{key, visibility, trust, characters, cut}, ...]
  withheld INTEGER NOT NULL,        -- keys that were to be shared, and may not be
  note TEXT NOT NULL DEFAULT ''     -- what a guard's model did with it, as text of the kernel
) STRICT;
INSERT INTO audit VALUES(1031,'ask',1033,'owner 1034 ''ü','owner_nam 1035 ''ü','receiver 1036 ''ü','receiver_ 1037 ''ü','space 1038 ''ü',1039,'query 1040 ''ü',X'000411FF',1042,'note 1043 ''ü');
INSERT INTO audit VALUES(1044,'moved',1046,'owner 1047 ''ü','owner_nam 1048 ''ü','receiver 1049 ''ü','receiver_ 1050 ''ü','space 1051 ''ü',1052,'query 1053 ''ü',X'00041EFF',1055,'note 1056 ''ü');
CREATE INDEX audit_owner ON audit (owner, id);
CREATE INDEX audit_receiver ON audit (receiver, id);
CREATE TABLE ballots (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  run INTEGER NOT NULL,             -- the workflow row it belongs to
  name TEXT NOT NULL,               -- its id for those who vote
  type TEXT NOT NULL CHECK (type IN ('election', 'decision', 'approval', 'assignment')),
  title TEXT NOT NULL,
  description TEXT NOT NULL,
  options BLOB NOT NULL,            -- JSON: [{id, label}, ...]
  rule TEXT NOT NULL CHECK (rule IN ('plurality', 'majority', 'unanimous')),
  quorum INTEGER NOT NULL,          -- minimum number of votes
  tie_breaker TEXT CHECK (tie_breaker IN ('first', 'random', 'creator-decides')),
  binding INTEGER NOT NULL,
  creator TEXT NOT NULL,            -- what the agent is called in the space, or user
  creator_key TEXT,                 -- the agent's key; null: a person
  hops INTEGER NOT NULL,            -- of the message that announced it
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,      -- an open one ends then
  state TEXT NOT NULL CHECK (state IN ('open', 'resolved', 'expired', 'cancelled')),
  tie_told INTEGER NOT NULL DEFAULT 0,              -- its creator knows that a tie is to be broken
  winner TEXT,
  why TEXT CHECK (why IN ('quorum', 'settled', 'creator', 'deadline', 'cancelled')),
  reason TEXT NOT NULL DEFAULT '',  -- of a cancellation
  ended_ms INTEGER,
  ended_by TEXT,
  salt TEXT NOT NULL DEFAULT '',    -- random and secret: lots are drawn from it
  strict INTEGER NOT NULL DEFAULT 0,                -- without its quorum no option wins
  binds BLOB,
  grants INTEGER NOT NULL DEFAULT 0 -- so many have to say yes; 0: by its rule and quorum
) STRICT;
INSERT INTO ballots VALUES(531,'space 532 ''ü',533,'name 534 ''ü','election','title 536 ''ü','descripti 537 ''ü',X'00021AFF','plurality',540,'first',542,'creator 543 ''ü','creator_k 544 ''ü',545,546,547,'open',549,'winner 550 ''ü','quorum','reason 552 ''ü',553,'ended_by 554 ''ü','salt 555 ''ü',556,X'00022DFF',558);
INSERT INTO ballots VALUES(559,'space 560 ''ü',561,'name 562 ''ü','assignment','title 564 ''ü','descripti 565 ''ü',X'000236FF','unanimous',568,NULL,570,'creator 571 ''ü',NULL,573,574,575,'cancelled',577,NULL,NULL,'reason 580 ''ü',NULL,NULL,'salt 583 ''ü',584,NULL,586);
CREATE UNIQUE INDEX ballots_name ON ballots (run, name, space);
CREATE INDEX ballots_open ON ballots (expires_ms) WHERE state = 'open';
CREATE INDEX ballots_space ON ballots (space, id);
CREATE TABLE blobs (
  hash BLOB PRIMARY KEY,            -- SHA-256 of the body
  body BLOB NOT NULL,
  part BLOB,                        -- of a frozen prompt: the hash of its system text, a blob of its own
  put_ms INTEGER NOT NULL           -- about when it was last stored: recent blobs are not swept
) STRICT;
INSERT INTO blobs VALUES(X'00018FFF',X'000190FF',X'000191FF',402);
INSERT INTO blobs VALUES(X'000193FF',X'000194FF',NULL,406);
CREATE TABLE boots (
  id INTEGER PRIMARY KEY,
  pid INTEGER NOT NULL,
  version TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  requeued INTEGER NOT NULL,
  stopped_ms INTEGER,               -- a clean stop
  progress_seq INTEGER NOT NULL DEFAULT 0,          -- newest event when it began
  safe INTEGER NOT NULL DEFAULT 0,
  machine TEXT,                     -- the boot of the machine it ran on
  offset_ms INTEGER,                -- its time, less what had passed since that
  skipped_ms INTEGER NOT NULL DEFAULT 0,
  term INTEGER NOT NULL DEFAULT 0   -- higher with each start
) STRICT;
INSERT INTO boots VALUES(1,2,'version 3 ''ü',4,5,6,7,8,'machine 9 ''ü',10,11,12);
INSERT INTO boots VALUES(13,14,'version 15 ''ü',16,17,NULL,19,20,NULL,NULL,23,24);
CREATE TABLE breakers (
  key TEXT PRIMARY KEY,
  reason TEXT NOT NULL,             -- protocol.instruction.WaitReason
  state TEXT NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
  open_until_ms INTEGER NOT NULL DEFAULT 0,         -- of an open one; 0: until a person acts
  opens INTEGER NOT NULL DEFAULT 0, -- in a row
  failures BLOB NOT NULL,           -- JSON: when it failed lately, while closed
  probe INTEGER,                    -- of a half-open one: the instruction that may try
  changed_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO breakers VALUES('key 357 ''ü','reason 358 ''ü','closed',360,361,X'00016AFF',363,364);
INSERT INTO breakers VALUES('key 365 ''ü','reason 366 ''ü','half_open',368,369,X'000172FF',NULL,372);
CREATE TABLE counters (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,             -- JSON: the values of its labels, in order
  value REAL NOT NULL
) STRICT;
INSERT INTO counters VALUES(1089,'name 1090 ''ü','labels 1091 ''ü',1092.25);
INSERT INTO counters VALUES(1093,'name 1094 ''ü','labels 1095 ''ü',1096.25);
CREATE UNIQUE INDEX counters_name ON counters (name, labels);
CREATE TABLE crashes (
  agent TEXT NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO crashes VALUES('agent 353 ''ü',354);
INSERT INTO crashes VALUES('agent 355 ''ü',356);
CREATE INDEX crashes_agent ON crashes (agent, at_ms);
CREATE TABLE creations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,              -- of the rule
  root TEXT NOT NULL,               -- the space, opened or started by a person, that it descends from
  depth INTEGER NOT NULL,           -- creations from there to this one
  rule TEXT NOT NULL,
  scopes TEXT,                      -- of the rule's author; null: a person or a file
  sender TEXT NOT NULL,
  verb TEXT NOT NULL CHECK (verb IN ('create_agent', 'open_space', 'start_workflow')),
  spec BLOB NOT NULL,               -- JSON
  state TEXT NOT NULL CHECK (state IN ('planned', 'done', 'refused')),
  made TEXT,                        -- a space, or the key of an agent
  at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX creations_made ON creations (made) WHERE made IS NOT NULL;
CREATE INDEX creations_planned ON creations (id) WHERE state = 'planned';
CREATE INDEX creations_root ON creations (root, verb, at_ms);
CREATE TABLE decision_numbers (
  kind TEXT PRIMARY KEY,
  newest INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO decision_numbers VALUES('document',1699);
INSERT INTO decision_numbers VALUES('memory',1910);
INSERT INTO decision_numbers VALUES('soul',1868);
CREATE TABLE decisions (
  kind TEXT NOT NULL,               -- a row of kernel.store.decisions
  number INTEGER NOT NULL,
  owner TEXT NOT NULL,              -- the key of the agent whose soul or memory it is; of a document: its space
  space TEXT NOT NULL,
  subject TEXT NOT NULL,            -- what is changed: a file, a trait, the key of an entry,
  content TEXT NOT NULL,            -- and its new text
  reason TEXT NOT NULL,
  author TEXT,                      -- of a document: the agent's name in the space, or user
  instruction INTEGER,              -- null: a person, or a guard
  run INTEGER,
  at_ms INTEGER NOT NULL,
  detail TEXT NOT NULL,             -- JSON: what only this kind has
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'accepted', 'approved', 'rejected')),
  decided_by TEXT,
  decision_reason TEXT,
  version INTEGER,                  -- of the document or soul with the change
  vote TEXT,                        -- that approved it; its file is still to be written while it is open
  PRIMARY KEY (kind, number)
) STRICT;
INSERT INTO decisions VALUES('document',685,'space 686 ''ü','space 686 ''ü','file 687 ''ü','content 689 ''ü','reason 694 ''ü','author 690 ''ü',691,692,693,'{"since":688}','open','decided_b 696 ''ü','decision_ 697 ''ü',698,NULL);
INSERT INTO decisions VALUES('document',699,'space 700 ''ü','space 700 ''ü','file 701 ''ü','content 703 ''ü','reason 708 ''ü','author 704 ''ü',NULL,NULL,707,'{"since":702}','rejected',NULL,NULL,NULL,NULL);
INSERT INTO decisions VALUES('soul',855,'agent 856 ''ü','space 860 ''ü','trait 857 ''ü','value 858 ''ü','observati 859 ''ü',NULL,861,862,863,'{}','open','decided_b 865 ''ü','reason 866 ''ü',867,NULL);
INSERT INTO decisions VALUES('soul',868,'agent 869 ''ü','space 873 ''ü','trait 870 ''ü','value 871 ''ü','observati 872 ''ü',NULL,874,NULL,876,'{}','rejected',NULL,NULL,NULL,NULL);
INSERT INTO decisions VALUES('memory',897,'agent 898 ''ü','space 904 ''ü','key 900 ''ü','value 901 ''ü','',NULL,NULL,905,906,'{"kind":"decision","messages":["m1"],"trust":"user"}','open','decided_b 908 ''ü',NULL,NULL,'voted 909 ''ü');
INSERT INTO decisions VALUES('memory',910,'agent 911 ''ü','space 917 ''ü','key 913 ''ü','value 914 ''ü','',NULL,NULL,NULL,919,'{"kind":"work_log","messages":["m2"],"trust":"web"}','rejected',NULL,NULL,NULL,NULL);
CREATE INDEX decisions_open ON decisions (kind, number) WHERE state = 'open';
CREATE INDEX decisions_owner ON decisions (owner, kind, state, number);
CREATE TABLE deliveries (
  message INTEGER NOT NULL,
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'injected', 'acked', 'dead')),
  instruction INTEGER,              -- null: delivered, but not woken by it
  PRIMARY KEY (message, agent)
) STRICT, WITHOUT ROWID;
INSERT INTO deliveries VALUES(47,'agent 48 ''ü','name 49 ''ü','space 50 ''ü','queued',52);
INSERT INTO deliveries VALUES(53,'agent 54 ''ü','name 55 ''ü','space 56 ''ü','dead',NULL);
CREATE INDEX deliveries_inbox ON deliveries (agent, space, message) WHERE state IN ('queued', 'leased', 'injected');
CREATE INDEX deliveries_instruction ON deliveries (instruction) WHERE instruction IS NOT NULL;
CREATE TABLE document_mirrors (
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  folder TEXT NOT NULL,             -- of the workspace, as seen from the project's root
  version INTEGER NOT NULL,
  digest BLOB NOT NULL,             -- SHA-256 of what was in the file then
  told BLOB,                        -- that of what a person wrote since, which is not taken, once that was told
  PRIMARY KEY (space, file)
) STRICT, WITHOUT ROWID;
INSERT INTO document_mirrors VALUES('space 721 ''ü','file 722 ''ü','folder 723 ''ü',724,X'0002D5FF',X'0002D6FF');
INSERT INTO document_mirrors VALUES('space 727 ''ü','file 728 ''ü','folder 729 ''ü',730,X'0002DBFF',NULL);
CREATE TABLE document_owners (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  pattern TEXT NOT NULL,
  owner TEXT NOT NULL
) STRICT;
INSERT INTO document_owners VALUES(713,'space 714 ''ü','pattern 715 ''ü','owner 716 ''ü');
INSERT INTO document_owners VALUES(717,'space 718 ''ü','pattern 719 ''ü','owner 720 ''ü');
CREATE INDEX document_owners_space ON document_owners (space, id);
CREATE TABLE document_versions (
  document INTEGER NOT NULL,
  version INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('create', 'write', 'append', 'merge', 'accept', 'delete')),
  message INTEGER NOT NULL,
  author TEXT NOT NULL,             -- what the agent is called in the space, or user
  instruction INTEGER,              -- null: a person
  run INTEGER,
  at_ms INTEGER NOT NULL,
  reason TEXT NOT NULL,
  added INTEGER NOT NULL,           -- lines
  removed INTEGER NOT NULL,
  undo BLOB NOT NULL                -- JSON: [[start, end, [line, ...]], ...] makes the version before of this one
) STRICT;
INSERT INTO document_versions VALUES(661,662,'create',664,'author 665 ''ü',666,667,668,'reason 669 ''ü',670,671,X'0002A0FF');
INSERT INTO document_versions VALUES(673,674,'delete',676,'author 677 ''ü',NULL,NULL,680,'reason 681 ''ü',682,683,X'0002ACFF');
CREATE UNIQUE INDEX document_versions_number ON document_versions (document, version);
CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  space TEXT NOT NULL,
  file TEXT NOT NULL,
  version INTEGER NOT NULL,         -- the newest; they count by one, also through a deletion
  content TEXT NOT NULL,            -- of that version; '' of one that is deleted
  deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO documents VALUES(649,'space 650 ''ü','file 651 ''ü',652,'content 653 ''ü',654);
INSERT INTO documents VALUES(655,'space 656 ''ü','file 657 ''ü',658,'content 659 ''ü',660);
CREATE UNIQUE INDEX documents_file ON documents (space, file);
CREATE TABLE effects (
  instruction INTEGER NOT NULL,
  call_key TEXT NOT NULL,
  result BLOB NOT NULL,
  PRIMARY KEY (instruction, call_key)
) STRICT, WITHOUT ROWID;
INSERT INTO effects VALUES(319,'call_key 320 ''ü',X'000141FF');
INSERT INTO effects VALUES(322,'call_key 323 ''ü',X'000144FF');
CREATE TABLE electors (
  ballot INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (ballot, name)
) STRICT, WITHOUT ROWID;
INSERT INTO electors VALUES(587,'name 588 ''ü');
INSERT INTO electors VALUES(589,'name 590 ''ü');
CREATE TABLE entries (
  instruction INTEGER NOT NULL,
  k INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('reply', 'tool', 'session', 'note')),
  body BLOB NOT NULL,               -- empty where it is a blob
  blob BLOB,                        -- the hash of the body in blobs
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (instruction, k)
) STRICT;
INSERT INTO entries VALUES(407,408,409,'reply',X'00019BFF',X'00019CFF',413);
INSERT INTO entries VALUES(414,415,416,'note',X'0001A2FF',NULL,420);
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  type TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  space TEXT,
  agent TEXT,                       -- name
  instruction INTEGER,
  message INTEGER,                  -- of type message: its body is read there, so that it exists once
  data BLOB
) STRICT;
INSERT INTO events VALUES(337,'type 338 ''ü',339,'space 340 ''ü','agent 341 ''ü',342,343,X'000158FF');
INSERT INTO events VALUES(345,'type 346 ''ü',347,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE feedback (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  author TEXT NOT NULL,             -- an agent's name in the space, or user
  space TEXT,                       -- null: the user's
  instruction INTEGER,
  call_key TEXT,
  text TEXT NOT NULL
) STRICT;
INSERT INTO feedback VALUES(481,482,'author 483 ''ü','space 484 ''ü',485,'call_key 486 ''ü','text 487 ''ü');
INSERT INTO feedback VALUES(488,489,'author 490 ''ü',NULL,NULL,NULL,'text 494 ''ü');
CREATE UNIQUE INDEX feedback_call ON feedback (instruction, call_key) WHERE call_key IS NOT NULL;
CREATE INDEX feedback_space ON feedback (space) WHERE space IS NOT NULL;
CREATE TABLE followers (
  name TEXT PRIMARY KEY,            -- metrics, or otel: and the digest of a unit of trust
  cursor INTEGER NOT NULL,          -- the event that was taken up last
  since_ms INTEGER NOT NULL,        -- when it began
  failing_ms INTEGER,               -- since when nothing could be delivered; null: the last time it could
  why TEXT,                         -- not
  dropped INTEGER NOT NULL DEFAULT 0                -- events that were refused for good
) STRICT, WITHOUT ROWID;
INSERT INTO followers VALUES('name 1077 ''ü',1078,1079,1080,'why 1081 ''ü',1082);
INSERT INTO followers VALUES('name 1083 ''ü',1084,1085,NULL,NULL,1088);
CREATE TABLE grants (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  run INTEGER,                      -- the workflow row it counts in; null: an agent's own space
  agent TEXT NOT NULL,              -- the key of who has it,
  name TEXT NOT NULL,               -- and what that one is called in the space
  scope TEXT,                       -- what it opens; null: it is the answer to one request
  approval INTEGER,                 -- that request
  giver TEXT NOT NULL,              -- what the giver is called in the space, or user
  giver_key TEXT,                   -- the agent's key; null: a person
  parent INTEGER,                   -- the grant that the giver has it by; null: its own file, or a person
  warrant INTEGER,                  -- the grant by which it may give anything; null: likewise
  until_ms INTEGER,
  uses INTEGER,
  used INTEGER NOT NULL DEFAULT 0,
  given_ms INTEGER NOT NULL,
  revoked_ms INTEGER,
  revoked_by TEXT
) STRICT;
INSERT INTO grants VALUES(983,'space 984 ''ü',985,'agent 986 ''ü','name 987 ''ü','scope 988 ''ü',989,'giver 990 ''ü','giver_key 991 ''ü',992,993,994,995,996,997,998,'revoked_b 999 ''ü');
INSERT INTO grants VALUES(1000,'space 1001 ''ü',NULL,'agent 1003 ''ü','name 1004 ''ü',NULL,NULL,'giver 1007 ''ü',NULL,NULL,NULL,NULL,NULL,1013,1014,NULL,NULL);
CREATE INDEX grants_space ON grants (space, id);
CREATE INDEX grants_standing ON grants (agent, space) WHERE revoked_ms IS NULL AND scope IS NOT NULL;
CREATE TABLE guard_jobs (
  id INTEGER PRIMARY KEY,
  instruction INTEGER NOT NULL UNIQUE,
  space TEXT NOT NULL,              -- that it is about
  evidence BLOB NOT NULL,           -- JSON: the messages it was shown, and whose trays there are
  state TEXT NOT NULL CHECK (state IN ('open', 'done', 'failed')),
  purpose TEXT NOT NULL DEFAULT 'extract' CHECK (purpose IN ('extract', 'observe', 'write', 'ask')),
  call TEXT,
  told INTEGER NOT NULL DEFAULT 0   -- 1: what it changed is in the audit
) STRICT;
INSERT INTO guard_jobs VALUES(881,882,'space 883 ''ü',X'000374FF','open','extract','call 887 ''ü',888);
INSERT INTO guard_jobs VALUES(889,890,'space 891 ''ü',X'00037CFF','failed','ask',NULL,896);
CREATE UNIQUE INDEX guard_jobs_call ON guard_jobs (call) WHERE call IS NOT NULL;
CREATE INDEX guard_jobs_open ON guard_jobs (id) WHERE state = 'open';
CREATE TABLE handovers (
  instruction INTEGER PRIMARY KEY,
  body BLOB NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO handovers VALUES(829,X'00033EFF',831);
INSERT INTO handovers VALUES(832,X'000341FF',834);
CREATE TABLE held_rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  proposal TEXT NOT NULL,           -- by which they agree
  rule INTEGER NOT NULL,
  version INTEGER NOT NULL,
  author TEXT NOT NULL,
  author_key TEXT,
  scopes TEXT NOT NULL,
  spec BLOB NOT NULL,
  occasion BLOB NOT NULL            -- JSON: kernel.policy.rules.Occasion
) STRICT;
INSERT INTO held_rules VALUES(963,'space 964 ''ü','proposal 965 ''ü',966,967,'author 968 ''ü','author_ke 969 ''ü','scopes 970 ''ü',X'0003CBFF',X'0003CCFF');
INSERT INTO held_rules VALUES(973,'space 974 ''ü','proposal 975 ''ü',976,977,'author 978 ''ü',NULL,'scopes 980 ''ü',X'0003D5FF',X'0003D6FF');
CREATE INDEX held_rules_proposal ON held_rules (space, proposal);
CREATE TABLE idempotency (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  body_hash BLOB NOT NULL,
  status INTEGER NOT NULL,
  response BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT;
INSERT INTO idempotency VALUES('principal 325 ''ü','key 326 ''ü',X'000147FF',328,X'000149FF',330);
INSERT INTO idempotency VALUES('principal 331 ''ü','key 332 ''ü',X'00014DFF',334,X'00014FFF',336);
CREATE INDEX idempotency_age ON idempotency (at_ms);
CREATE TABLE instructions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  run INTEGER,
  lane INTEGER NOT NULL CHECK (lane IN (0, 1, 2)),
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'running', 'yielded', 'waiting', 'done', 'incomplete',
    'failed', 'dead', 'cancelled')),
  epoch INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,              -- charged, with the one that runs
  crashes INTEGER NOT NULL DEFAULT 0,               -- attempts that ended in a crash; charged here and not above
  preempted INTEGER NOT NULL DEFAULT 0,
  entries INTEGER NOT NULL DEFAULT 0,
  steps INTEGER NOT NULL DEFAULT 0,
  message INTEGER NOT NULL,         -- the message it was made of
  hops INTEGER NOT NULL,
  vouched BLOB,                     -- what this message was trusted to have done, as JSON
  not_before_ms INTEGER NOT NULL DEFAULT 0,
  enqueued_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  error_class TEXT,
  cause TEXT,
  result_text TEXT NOT NULL DEFAULT '',
  manifest BLOB,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cost_usd REAL,
  waits_for TEXT,                   -- of a waiting one: protocol.instruction.WaitReason
  wait_key TEXT,                    -- the breaker, or the instruction, it waits for
  parked_ms INTEGER NOT NULL DEFAULT 0,             -- when not_before_ms was set
  throttled_ms INTEGER NOT NULL DEFAULT 0,          -- first refusal for rate since the last entry
  kernel_deaths INTEGER NOT NULL DEFAULT 0,         -- in a row, without progress between them
  progress_mark INTEGER NOT NULL DEFAULT -1,        -- entries and effects at the last of them
  promoted INTEGER NOT NULL DEFAULT 0,              -- by age or by hand: makes a step first
  by_mention INTEGER NOT NULL DEFAULT 0,            -- further mentions may join it until its lease
  prefix BLOB,                      -- hash of the frozen prompt in blobs, set with its first entry
  continues INTEGER,                -- the incomplete instruction whose thread it takes up
  carried_steps INTEGER NOT NULL DEFAULT 0,         -- steps that came with that thread
  compacted INTEGER NOT NULL DEFAULT 0,             -- its one retry after a context overflow
  aside INTEGER NOT NULL DEFAULT 0, -- entries before this one are told, not replayed
  asked_by INTEGER,                 -- the instruction that asked for it and gets its answer
  told INTEGER NOT NULL DEFAULT 0,  -- the instruction that asked was notified of its end
  model TEXT,                       -- of its last attempt, or else its backend; null: none was begun
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  dismissed INTEGER NOT NULL DEFAULT 0,
  answer_by_ms INTEGER NOT NULL DEFAULT 0,
  -- the least trusted input that its prompt, session and tools showed: 0 user, 1 agent, 2 tool, 3 web
  trust INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO instructions VALUES(203,'agent 204 ''ü','name 205 ''ü','space 206 ''ü',207,0,'queued',210,211,212,213,214,215,216,217,X'0000DAFF',219,220,221,'error_cla 222 ''ü','cause 223 ''ü','result_te 224 ''ü',X'0000E1FF',226,227,228,229.25,'waits_for 230 ''ü','wait_key 231 ''ü',232,233,234,235,236,237,X'0000EEFF',239,240,241,242,243,244,'model 245 ''ü',246,247,248,3);
INSERT INTO instructions VALUES(249,'agent 250 ''ü','name 251 ''ü','space 252 ''ü',NULL,2,'cancelled',256,257,258,259,260,261,262,263,NULL,265,266,NULL,NULL,NULL,'result_te 270 ''ü',NULL,272,273,274,NULL,NULL,NULL,278,279,280,281,282,283,NULL,NULL,286,287,288,NULL,290,NULL,292,293,294,3);
CREATE INDEX instructions_aging ON instructions (enqueued_ms) WHERE state IN ('queued', 'yielded') AND lane > 0;
CREATE INDEX instructions_answer_by ON instructions (answer_by_ms) WHERE state = 'waiting' AND answer_by_ms > 0;
CREATE INDEX instructions_asked ON instructions (asked_by, id) WHERE asked_by IS NOT NULL AND told = 0;
CREATE INDEX instructions_continued ON instructions (continues) WHERE continues IS NOT NULL;
CREATE INDEX instructions_dead ON instructions (ended_ms) WHERE state IN ('failed', 'dead');
CREATE INDEX instructions_doubted ON instructions (space, trust) WHERE trust > 1;
CREATE INDEX instructions_doubtful ON instructions (agent, trust) WHERE trust > 1;
CREATE INDEX instructions_due ON instructions (not_before_ms)
  WHERE state IN ('queued', 'yielded') AND not_before_ms > 0;
CREATE INDEX instructions_ended ON instructions (agent, space, ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX instructions_ended_at ON instructions (ended_ms) WHERE ended_ms IS NOT NULL;
CREATE INDEX instructions_joining ON instructions (agent, space, lane)
  WHERE state = 'queued' AND by_mention = 1 AND epoch = 0;
CREATE INDEX instructions_open ON instructions (space, id)
  WHERE state IN ('queued', 'leased', 'running', 'yielded', 'waiting');
CREATE INDEX instructions_parked ON instructions (agent, lane, id) WHERE state = 'waiting';
CREATE INDEX instructions_queue ON instructions (agent, lane, id, not_before_ms) WHERE state IN ('queued', 'yielded');
CREATE INDEX instructions_run ON instructions (run, state) WHERE run IS NOT NULL;
CREATE INDEX instructions_timed ON instructions (not_before_ms) WHERE state = 'waiting' AND not_before_ms > 0;
CREATE INDEX instructions_waiting ON instructions (wait_key, lane, id) WHERE state = 'waiting';
CREATE UNIQUE INDEX one_live ON instructions (agent) WHERE state IN ('leased', 'running');
CREATE TABLE kept (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  events INTEGER NOT NULL           -- up to this seq, events may be missing
) STRICT;
INSERT INTO kept VALUES(1,7);
CREATE TABLE landings (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL,
  space TEXT NOT NULL,
  repository TEXT NOT NULL,         -- as of its working trees
  state TEXT NOT NULL CHECK (state IN ('requested', 'merging', 'checked', 'merged', 'refused')),
  branch TEXT NOT NULL,             -- what is merged into, without refs/heads/
  terms BLOB NOT NULL,              -- JSON: whose branches, how, what checks the result, whether it is given back
  delivers INTEGER NOT NULL,        -- asked for by the workflow's file, at the end of its run
  after INTEGER NOT NULL,           -- the newest instruction of the run when it was asked for
  tries INTEGER NOT NULL DEFAULT 0, -- how often it was begun
  expected TEXT NOT NULL DEFAULT '',                -- once checked: the commit that the branch is moved from,
  tip TEXT NOT NULL DEFAULT '',     -- and the one that it is moved to, with all that lands together,
  result TEXT NOT NULL DEFAULT '',  -- and the one of these that is this landing's own
  outcome BLOB NOT NULL DEFAULT x'7b7d',            -- JSON: what came of it, as far as it is known
  requested_ms INTEGER NOT NULL,
  ended_ms INTEGER
) STRICT;
INSERT INTO landings VALUES(617,618,'space 619 ''ü','repositor 620 ''ü','requested','branch 622 ''ü',X'00026FFF',624,625,626,'expected 627 ''ü','tip 628 ''ü','result 629 ''ü',X'000276FF',631,632);
INSERT INTO landings VALUES(633,634,'space 635 ''ü','repositor 636 ''ü','refused','branch 638 ''ü',X'00027FFF',640,641,642,'expected 643 ''ü','tip 644 ''ü','result 645 ''ü',X'000286FF',647,NULL);
CREATE INDEX landings_open ON landings (id) WHERE state IN ('requested', 'merging', 'checked');
CREATE INDEX landings_run ON landings (run, id);
CREATE INDEX landings_space ON landings (space);
CREATE TABLE members (
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  agent TEXT NOT NULL,
  backend TEXT,
  answer_ms INTEGER,
  needs TEXT,                       -- in place of agents.needs
  PRIMARY KEY (space, name)
) STRICT, WITHOUT ROWID;
INSERT INTO members VALUES('space 121 ''ü','name 122 ''ü','agent 123 ''ü','backend 124 ''ü',125,'needs 126 ''ü');
INSERT INTO members VALUES('space 127 ''ü','name 128 ''ü','agent 129 ''ü',NULL,NULL,NULL);
CREATE INDEX members_agent ON members (agent);
CREATE TABLE messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('kickoff', 'said', 'reply', 'system', 'status', 'document', 'proposal', 'vote',
    'resolved', 'approval', 'due', 'done', 'failed', 'grant')),
  space TEXT NOT NULL,
  sender TEXT NOT NULL,
  addressed TEXT NOT NULL,          -- names, separated by blanks: directly or by a mention
  text TEXT NOT NULL,
  hops INTEGER NOT NULL,
  cause INTEGER,                    -- the instruction it comes from
  run INTEGER,                      -- the workflow row it belongs to
  at_ms INTEGER NOT NULL,
  cleared INTEGER NOT NULL DEFAULT 0                -- its text was removed
) STRICT;
INSERT INTO messages VALUES(25,'kickoff','space 27 ''ü','sender 28 ''ü','addressed 29 ''ü','text 30 ''ü',31,32,33,34,35);
INSERT INTO messages VALUES(36,'failed','space 38 ''ü','sender 39 ''ü','addressed 40 ''ü','text 41 ''ü',42,NULL,NULL,45,46);
CREATE INDEX messages_cause ON messages (cause, seq) WHERE cause IS NOT NULL;
CREATE INDEX messages_channel ON messages (space, seq) WHERE kind NOT IN ('approval', 'due', 'done', 'failed');
CREATE INDEX messages_run ON messages (run, seq)
  WHERE run IS NOT NULL AND kind NOT IN ('approval', 'due', 'done', 'failed');
CREATE TABLE mirrors (
  space TEXT PRIMARY KEY,           -- empty: all; else its files are to be written again
  seq INTEGER NOT NULL              -- up to here everything is in its files
) STRICT, WITHOUT ROWID;
INSERT INTO mirrors VALUES('space 423 ''ü',424);
INSERT INTO mirrors VALUES('space 425 ''ü',426);
CREATE TABLE model_spending (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  cost_usd REAL NOT NULL            -- of what has a known price
) STRICT;
INSERT INTO model_spending VALUES(1097,'backend 1098 ''ü','model 1099 ''ü',1100,1101,1102,1103,1104.25);
INSERT INTO model_spending VALUES(1105,'backend 1106 ''ü','model 1107 ''ü',1108,1109,1110,1111,1112.25);
CREATE UNIQUE INDEX model_spending_model ON model_spending (backend, model);
CREATE TABLE nodes (
  name TEXT PRIMARY KEY,
  settings TEXT,                    -- JSON, as the project file has it; null: the file has it
  draining INTEGER NOT NULL DEFAULT 0,
  digest BLOB UNIQUE,               -- of the token by which it joins
  created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO nodes VALUES('name 1113 ''ü','settings 1114 ''ü',1115,X'00045CFF',1117);
INSERT INTO nodes VALUES('name 1118 ''ü',NULL,1120,NULL,1122);
CREATE TABLE project_identity (
  id TEXT NOT NULL
) STRICT;
INSERT INTO project_identity VALUES('id 1123 ''ü');
INSERT INTO project_identity VALUES('id 1124 ''ü');
CREATE TABLE quotas (
  instruction INTEGER PRIMARY KEY,
  messages INTEGER NOT NULL DEFAULT 0,
  instructions INTEGER NOT NULL DEFAULT 0,          -- of others, which its messages became
  approvals INTEGER NOT NULL DEFAULT 0,             -- that a person was asked for
  feedback INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0, -- of text that is kept
  told TEXT NOT NULL DEFAULT ''     -- which of these were reached, and an event said so
) STRICT;
INSERT INTO quotas VALUES(603,604,605,606,607,608,'told 609 ''ü');
INSERT INTO quotas VALUES(610,611,612,613,614,615,'told 616 ''ü');
CREATE TABLE resources (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  space TEXT NOT NULL,
  blob BLOB NOT NULL,
  type TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,
  characters INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
) STRICT;
INSERT INTO resources VALUES(795,'id 796 ''ü','space 797 ''ü',X'00031EFF','type 799 ''ü','author 800 ''ü',801,802,803,804);
INSERT INTO resources VALUES(805,'id 806 ''ü','space 807 ''ü',X'000328FF','type 809 ''ü','author 810 ''ü',NULL,812,813,814);
CREATE INDEX resources_of_space ON resources (space, number);
CREATE TABLE rules (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  author TEXT NOT NULL,             -- what the agent is called in the space; user; system: the workflow's file
  author_key TEXT,                  -- the agent's key; null: a person, or a file
  scopes TEXT NOT NULL,             -- of the agent that defined it, with spaces between
  enabled INTEGER NOT NULL,
  message INTEGER NOT NULL DEFAULT 0,               -- that defined it
  defined_ms INTEGER NOT NULL,
  fired INTEGER NOT NULL DEFAULT 0,
  fired_ms INTEGER,
  spec BLOB NOT NULL                -- JSON: protocol.rules.RuleSpec
) STRICT;
INSERT INTO rules VALUES(937,'space 938 ''ü','name 939 ''ü',940,'author 941 ''ü','author_ke 942 ''ü','scopes 943 ''ü',944,945,946,947,948,X'0003B5FF');
INSERT INTO rules VALUES(950,'space 951 ''ü','name 952 ''ü',953,'author 954 ''ü',NULL,'scopes 956 ''ü',957,958,959,960,NULL,X'0003C2FF');
CREATE INDEX rules_enabled ON rules (space, id) WHERE enabled = 1;
CREATE UNIQUE INDEX rules_name ON rules (space, name);
CREATE TABLE soul_versions (
  agent TEXT NOT NULL,
  version INTEGER NOT NULL,
  body TEXT NOT NULL,               -- what soul.yaml says
  diff TEXT NOT NULL,               -- from the version before
  reason TEXT NOT NULL,
  author TEXT NOT NULL,
  instruction INTEGER,              -- null: a person
  proposal INTEGER,
  at_ms INTEGER NOT NULL,
  written INTEGER NOT NULL,         -- 0: it is still to be written into the file
  PRIMARY KEY (agent, version)
) STRICT, WITHOUT ROWID;
INSERT INTO soul_versions VALUES('agent 835 ''ü',836,'body 837 ''ü','diff 838 ''ü','reason 839 ''ü','author 840 ''ü',841,842,843,844);
INSERT INTO soul_versions VALUES('agent 845 ''ü',846,'body 847 ''ü','diff 848 ''ü','reason 849 ''ü','author 850 ''ü',NULL,NULL,853,854);
CREATE INDEX soul_versions_unwritten ON soul_versions (agent) WHERE written = 0;
CREATE TABLE spending (
  agent TEXT NOT NULL,
  minute INTEGER NOT NULL,          -- since 1970
  tokens INTEGER NOT NULL,
  usd REAL NOT NULL,                -- of what has a known price
  worked_ms INTEGER NOT NULL DEFAULT 0,             -- by attempts that have ended
  PRIMARY KEY (agent, minute)
) STRICT, WITHOUT ROWID;
INSERT INTO spending VALUES('agent 373 ''ü',374,375,376.25,377);
INSERT INTO spending VALUES('agent 378 ''ü',379,380,381.25,382);
CREATE TABLE statuses (
  agent TEXT NOT NULL,
  space TEXT NOT NULL,
  task TEXT,
  state TEXT,
  metadata BLOB,
  instruction INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, space)
) STRICT, WITHOUT ROWID;
INSERT INTO statuses VALUES('agent 815 ''ü','space 816 ''ü','task 817 ''ü','state 818 ''ü',X'000333FF',820,821);
INSERT INTO statuses VALUES('agent 822 ''ü','space 823 ''ü',NULL,NULL,NULL,827,828);
CREATE TABLE subspaces (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL UNIQUE,       -- review:main~design#12.7
  base TEXT NOT NULL,               -- the space of its run
  name TEXT NOT NULL,
  run INTEGER NOT NULL,
  opener TEXT NOT NULL,             -- what its opener is called there,
  opener_key TEXT NOT NULL,         -- and the agent's key
  instruction INTEGER NOT NULL,     -- the work that it was opened in
  opened_ms INTEGER NOT NULL,
  closed_ms INTEGER
) STRICT;
INSERT INTO subspaces VALUES(1057,'space 1058 ''ü','base 1059 ''ü','name 1060 ''ü',1061,'opener 1062 ''ü','opener_ke 1063 ''ü',1064,1065,1066);
INSERT INTO subspaces VALUES(1067,'space 1068 ''ü','base 1069 ''ü','name 1070 ''ü',1071,'opener 1072 ''ü','opener_ke 1073 ''ü',1074,1075,NULL);
CREATE INDEX subspaces_base ON subspaces (base, number);
CREATE UNIQUE INDEX subspaces_open ON subspaces (base, name) WHERE closed_ms IS NULL;
CREATE INDEX subspaces_opener ON subspaces (instruction) WHERE closed_ms IS NULL;
CREATE TABLE task_needs (
  task INTEGER NOT NULL,            -- tasks.id of the one that waits
  needs INTEGER NOT NULL,           -- tasks.id of the one that it waits for
  PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;
INSERT INTO task_needs VALUES(791,792);
INSERT INTO task_needs VALUES(793,794);
CREATE INDEX task_needs_needed ON task_needs (needs, task);
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  n INTEGER NOT NULL,               -- its number there: t3
  key TEXT,                         -- the planner's name for it
  title TEXT NOT NULL,
  text TEXT NOT NULL,
  for_name TEXT,                    -- the member that gets it once it is ready; null: any member that claims it
  parent INTEGER,                   -- n of the task that it is a part of
  found_in INTEGER,                 -- n of the task that was worked on when it was planned
  files BLOB NOT NULL,              -- JSON: globs of files that only the holder may change while it is claimed
  command TEXT,                     -- what checks that it is done
  vouched INTEGER NOT NULL,         -- the command is a person's or of a trusted file: it needs no approval
  confined INTEGER NOT NULL,        -- the command is that of a confined agent, and run like it
  on_failure TEXT CHECK (on_failure IN ('hold', 'skip', 'cancel')),
  state TEXT NOT NULL CHECK (state IN ('open', 'ready', 'claimed', 'done', 'failed', 'cancelled')),
  creator TEXT NOT NULL,            -- a member, user, or system for the workflow's file
  hops INTEGER NOT NULL,            -- of the message that planned it
  created_ms INTEGER NOT NULL,
  ready_ms INTEGER,
  given_out INTEGER NOT NULL DEFAULT 0,             -- how often it was made an instruction
  instruction INTEGER,              -- the one it was given out as, or was claimed in, last
  holder TEXT,                      -- who has claimed it,
  epoch INTEGER,                    -- and the attempt of the instruction that did; null: a person
  claimed_ms INTEGER,
  result TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '',
  ended_ms INTEGER,
  ended_by TEXT,
  handed_by INTEGER                 -- the last instruction on it that left a hand-over
) STRICT;
INSERT INTO tasks VALUES(733,'space 734 ''ü',735,'key 736 ''ü','title 737 ''ü','text 738 ''ü','for_name 739 ''ü',740,741,X'0002E6FF','command 743 ''ü',744,745,'hold','open','creator 748 ''ü',749,750,751,752,753,'holder 754 ''ü',755,756,'result 757 ''ü','reason 758 ''ü',759,'ended_by 760 ''ü',761);
INSERT INTO tasks VALUES(762,'space 763 ''ü',764,NULL,'title 766 ''ü','text 767 ''ü',NULL,NULL,NULL,X'000303FF',NULL,773,774,NULL,'cancelled','creator 777 ''ü',778,779,NULL,781,NULL,NULL,NULL,NULL,'result 786 ''ü','reason 787 ''ü',NULL,NULL,NULL);
CREATE INDEX tasks_instruction ON tasks (instruction) WHERE instruction IS NOT NULL AND state IN ('ready', 'claimed');
CREATE INDEX tasks_key ON tasks (space, key, n) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX tasks_number ON tasks (space, n);
CREATE INDEX tasks_state ON tasks (space, state, n);
CREATE INDEX tasks_unfinished ON tasks (state, space) WHERE state IN ('open', 'ready');
CREATE TABLE timers (
  agent TEXT NOT NULL,              -- key
  home TEXT NOT NULL,               -- where its schedule stands: the agent's personal space, or a workflow's space
  schedule BLOB NOT NULL,           -- protocol.agent.Schedule as JSON
  period_ms INTEGER,                -- of an interval; null: cron, then next_ms and fired_ms are of the wall clock
  next_ms INTEGER NOT NULL,
  fired_ms INTEGER,                 -- last
  instruction INTEGER,              -- what it last became
  coalesced INTEGER NOT NULL DEFAULT 0,             -- times it came since then while that still waited for its turn
  PRIMARY KEY (agent, home)
) STRICT, WITHOUT ROWID;
INSERT INTO timers VALUES('agent 383 ''ü','home 384 ''ü',X'000181FF',386,387,388,389,390);
INSERT INTO timers VALUES('agent 391 ''ü','home 392 ''ü',X'000189FF',NULL,395,NULL,NULL,398);
CREATE INDEX timers_steady ON timers (next_ms) WHERE period_ms IS NOT NULL;
CREATE INDEX timers_wall ON timers (next_ms) WHERE period_ms IS NULL;
CREATE TABLE tokens (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('read', 'operate', 'approve')),
  agents TEXT,
  digest BLOB NOT NULL UNIQUE,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER                -- null: valid until it is revoked
) STRICT;
INSERT INTO tokens VALUES(1017,'name 1018 ''ü','read','agents 1020 ''ü',X'0003FDFF',1022,1023);
INSERT INTO tokens VALUES(1024,'name 1025 ''ü','approve',NULL,X'000404FF',1029,NULL);
CREATE TABLE votes (
  ballot INTEGER NOT NULL,
  voter TEXT NOT NULL,              -- an elector's name, or user
  n INTEGER NOT NULL,               -- its place among the votes of the ballot
  choice TEXT NOT NULL,
  reason TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (ballot, voter)
) STRICT, WITHOUT ROWID;
INSERT INTO votes VALUES(591,'voter 592 ''ü',593,'choice 594 ''ü','reason 595 ''ü',596);
INSERT INTO votes VALUES(597,'voter 598 ''ü',599,'choice 600 ''ü','reason 601 ''ü',602);
CREATE TABLE webhook_retries (
  digest TEXT NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  event INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  due_ms INTEGER NOT NULL,
  PRIMARY KEY (digest, event)
) STRICT, WITHOUT ROWID;
INSERT INTO webhook_retries VALUES('digest 929 ''ü',930,931,932);
INSERT INTO webhook_retries VALUES('digest 933 ''ü',934,935,936);
CREATE INDEX webhook_retries_due ON webhook_retries (digest, due_ms);
CREATE TABLE webhooks (
  -- of its unit of trust: another address, secret or choice of events is another webhook
  digest TEXT PRIMARY KEY,
  cursor INTEGER NOT NULL,          -- the event that was taken up last
  disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1))
) STRICT;
INSERT INTO webhooks VALUES('digest 923 ''ü',924,0);
INSERT INTO webhooks VALUES('digest 926 ''ü',927,1);
CREATE TABLE workflows (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  tag TEXT NOT NULL,
  space TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('start', 'run')),
  file TEXT NOT NULL,
  definition BLOB NOT NULL,
  params BLOB NOT NULL,
  vouched BLOB NOT NULL,            -- what its start was trusted to do, as JSON
  state TEXT NOT NULL CHECK (state IN ('running', 'stopped')),
  status TEXT,
  exit_code INTEGER,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  deadline_ms INTEGER,
  hops_limit INTEGER NOT NULL,
  instructions_limit INTEGER NOT NULL,
  assigned INTEGER NOT NULL DEFAULT 0,
  limited INTEGER NOT NULL DEFAULT 0,               -- a limit holds its work back
  paused INTEGER NOT NULL DEFAULT 0,
  limited_by TEXT,                  -- what keeps it: hops, instructions, budget, wall_time
  wall_time_ms INTEGER,             -- granted again by continue; deadline_ms is when it is over
  budget_tokens INTEGER,
  budget_usd REAL,
  spent_tokens INTEGER NOT NULL DEFAULT 0,
  spent_usd REAL NOT NULL DEFAULT 0,
  -- memory: removed once it has ended; none: no channel
  workspace TEXT NOT NULL DEFAULT 'kept' CHECK (workspace IN ('kept', 'memory', 'none')),
  mirror TEXT,                      -- the folder it is written to, as seen from the root
  exit_from TEXT,                   -- the agent whose work gives the run's exit code
  approval TEXT,                    -- of this run, whatever its agents' files say
  attended INTEGER NOT NULL DEFAULT 0,              -- a user watches it and may approve
  verdict TEXT CHECK (verdict IN ('yes', 'no')),    -- what the vote decided that decides over it
  bound INTEGER NOT NULL DEFAULT 0, -- workspace.bind: its words are kept until cleared
  began_on TEXT NOT NULL DEFAULT '',                -- the branch its working trees began from; '': none
  held_kickoff BLOB,
  open INTEGER NOT NULL DEFAULT 0   -- every agent of the project can be mentioned in its space
) STRICT;
INSERT INTO workflows VALUES(133,'name 134 ''ü','tag 135 ''ü','space 136 ''ü','start','file 138 ''ü',X'00008BFF',X'00008CFF',X'00008DFF','running','status 143 ''ü',144,145,146,147,148,149,150,151,152,'limited_b 153 ''ü',154,155,156.25,157,158.25,'kept','mirror 160 ''ü','exit_from 161 ''ü','approval 162 ''ü',163,'yes',165,'began_on 166 ''ü',X'0000A7FF',0);
INSERT INTO workflows VALUES(168,'name 169 ''ü','tag 170 ''ü','space 171 ''ü','run','file 173 ''ü',X'0000AEFF',X'0000AFFF',X'0000B0FF','stopped',NULL,NULL,180,NULL,NULL,183,184,185,186,187,NULL,NULL,NULL,NULL,192,193.25,'none',NULL,NULL,NULL,198,NULL,200,'began_on 201 ''ü',NULL,0);
CREATE INDEX workflows_memory ON workflows (space) WHERE workspace = 'memory';
CREATE INDEX workflows_mirror ON workflows (mirror) WHERE mirror IS NOT NULL;
CREATE INDEX workflows_mirrored ON workflows (id) WHERE mirror IS NOT NULL;
CREATE INDEX workflows_place ON workflows (name, tag, id);
CREATE UNIQUE INDEX workflows_running ON workflows (space) WHERE state = 'running';
CREATE UNIQUE INDEX workflows_running_at ON workflows (name, tag) WHERE state = 'running';
CREATE INDEX workflows_space ON workflows (space, id);
CREATE TABLE worktrees (
  run INTEGER NOT NULL,
  agent TEXT NOT NULL,              -- key
  name TEXT NOT NULL,               -- what the agent is called in the space
  space TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('planned', 'made', 'removing', 'kept', 'gone')),
  repository TEXT NOT NULL,         -- the directory that holds the objects and branches of the project's git
  base TEXT NOT NULL,               -- the commit it began with
  branch TEXT NOT NULL,
  path TEXT NOT NULL,
  folder TEXT NOT NULL,             -- the project, as seen from the top of a working tree
  git_dir TEXT NOT NULL DEFAULT '', -- what is this tree's own in the repository; once it was made
  why TEXT NOT NULL DEFAULT '',
  follows TEXT NOT NULL DEFAULT '', -- the member whose last commit it is brought to
  commits TEXT NOT NULL DEFAULT 'auto' CHECK (commits IN ('auto', 'manual')),
  tip TEXT NOT NULL DEFAULT '',     -- the last commit of its branch; '': as it began
  ahead INTEGER NOT NULL DEFAULT 0, -- commits on it since it began
  note TEXT NOT NULL DEFAULT '',    -- why it was not brought there for its instruction
  confined INTEGER NOT NULL DEFAULT 0,              -- an agent that worked in it was confined at some time
  PRIMARY KEY (run, agent)
) STRICT, WITHOUT ROWID;
INSERT INTO worktrees VALUES(495,'agent 496 ''ü','name 497 ''ü','space 498 ''ü','planned','repositor 500 ''ü','base 501 ''ü','branch 502 ''ü','path 503 ''ü','folder 504 ''ü','git_dir 505 ''ü','why 506 ''ü','follows 507 ''ü','auto','tip 509 ''ü',510,'note 511 ''ü',512);
INSERT INTO worktrees VALUES(513,'agent 514 ''ü','name 515 ''ü','space 516 ''ü','gone','repositor 518 ''ü','base 519 ''ü','branch 520 ''ü','path 521 ''ü','folder 522 ''ü','git_dir 523 ''ü','why 524 ''ü','follows 525 ''ü','manual','tip 527 ''ü',528,'note 529 ''ü',530);
CREATE UNIQUE INDEX worktrees_path ON worktrees (path) WHERE state <> 'gone';
CREATE INDEX worktrees_space ON worktrees (space, run);
DELETE FROM main.sqlite_sequence WHERE name='approval_rules';
INSERT INTO main.sqlite_sequence VALUES ('approval_rules', 1475);
DELETE FROM main.sqlite_sequence WHERE name='approvals';
INSERT INTO main.sqlite_sequence VALUES ('approvals', 1448);
DELETE FROM main.sqlite_sequence WHERE name='audit';
INSERT INTO main.sqlite_sequence VALUES ('audit', 2044);
DELETE FROM main.sqlite_sequence WHERE name='ballots';
INSERT INTO main.sqlite_sequence VALUES ('ballots', 1559);
DELETE FROM main.sqlite_sequence WHERE name='events';
INSERT INTO main.sqlite_sequence VALUES ('events', 1345);
DELETE FROM main.sqlite_sequence WHERE name='feedback';
INSERT INTO main.sqlite_sequence VALUES ('feedback', 1488);
DELETE FROM main.sqlite_sequence WHERE name='grants';
INSERT INTO main.sqlite_sequence VALUES ('grants', 2000);
DELETE FROM main.sqlite_sequence WHERE name='held_rules';
INSERT INTO main.sqlite_sequence VALUES ('held_rules', 1973);
DELETE FROM main.sqlite_sequence WHERE name='instructions';
INSERT INTO main.sqlite_sequence VALUES ('instructions', 1249);
DELETE FROM main.sqlite_sequence WHERE name='landings';
INSERT INTO main.sqlite_sequence VALUES ('landings', 1633);
DELETE FROM main.sqlite_sequence WHERE name='messages';
INSERT INTO main.sqlite_sequence VALUES ('messages', 1036);
DELETE FROM main.sqlite_sequence WHERE name='rules';
INSERT INTO main.sqlite_sequence VALUES ('rules', 1950);
DELETE FROM main.sqlite_sequence WHERE name='subspaces';
INSERT INTO main.sqlite_sequence VALUES ('subspaces', 2067);
DELETE FROM main.sqlite_sequence WHERE name='tasks';
INSERT INTO main.sqlite_sequence VALUES ('tasks', 1762);
DELETE FROM main.sqlite_sequence WHERE name='tokens';
INSERT INTO main.sqlite_sequence VALUES ('tokens', 2024);
DELETE FROM main.sqlite_sequence WHERE name='workflows';
INSERT INTO main.sqlite_sequence VALUES ('workflows', 1168);
PRAGMA user_version = 34;
