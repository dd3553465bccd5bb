-- Working trees that meet: what is known of a tree's branch, and whose work it takes over.
-- A tree that all members of a run share has no agent: its key is ''.

ALTER TABLE worktrees ADD COLUMN follows TEXT NOT NULL DEFAULT '';     -- the member whose last commit it is brought to
ALTER TABLE worktrees ADD COLUMN commits TEXT NOT NULL DEFAULT 'auto' CHECK (commits IN ('auto', 'manual'));
ALTER TABLE worktrees ADD COLUMN tip TEXT NOT NULL DEFAULT '';         -- the last commit of its branch; '': as it began
ALTER TABLE worktrees ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0;     -- commits on it since it began
ALTER TABLE worktrees ADD COLUMN note TEXT NOT NULL DEFAULT '';        -- why it was not brought there for its instruction

PRAGMA user_version = 10;
