-- Holds the place of the migration of the nodes of a project, which is made elsewhere: take the other one.

PRAGMA user_version = 29;
