-- How far an instruction is trusted: as the least of all that its prompt, its session and its tools showed it, and so
-- all that it wrote: 0 user, 1 agent, 2 tool, 3 web. Of work that began before this nobody knows it.
ALTER TABLE instructions ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;
UPDATE instructions SET trust = 2 WHERE epoch > 0;
CREATE INDEX instructions_doubted ON instructions (space, trust) WHERE trust > 1;
CREATE INDEX instructions_doubtful ON instructions (agent, trust) WHERE trust > 1;

PRAGMA user_version = 31;
