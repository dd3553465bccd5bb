-- What the token of an attempt opens, where its agent's file says less than all: words, one behind the other.

ALTER TABLE attempts ADD COLUMN scopes TEXT;

PRAGMA user_version = 15;
