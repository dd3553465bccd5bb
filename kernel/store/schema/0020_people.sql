-- People as agents: how long one may take to answer (NULL: as its agent's file says, 0: as long as it likes), what a
-- workflow has in place of what an agent's file says, and when an answer comes too late.
ALTER TABLE agents ADD COLUMN answer_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE members ADD COLUMN backend TEXT;
ALTER TABLE members ADD COLUMN answer_ms INTEGER;
ALTER TABLE instructions ADD COLUMN answer_by_ms INTEGER NOT NULL DEFAULT 0;
CREATE INDEX instructions_answer_by ON instructions (answer_by_ms) WHERE state = 'waiting' AND answer_by_ms > 0;

PRAGMA user_version = 20;
