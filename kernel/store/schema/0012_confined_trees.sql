-- Whether an agent that works in a tree is, or ever was, confined: what it did there stays so, also once the tree is gone.

ALTER TABLE worktrees ADD COLUMN confined INTEGER NOT NULL DEFAULT 0;

UPDATE worktrees SET confined = 1 WHERE EXISTS (
  SELECT 1 FROM members AS m JOIN agents AS a ON a.key = m.agent
  WHERE m.space = worktrees.space AND worktrees.agent IN (m.agent, '') AND json_valid(CAST(a.definition AS TEXT))
    AND json_extract(CAST(a.definition AS TEXT), '$.sandbox') = 'on'
);

PRAGMA user_version = 12;
