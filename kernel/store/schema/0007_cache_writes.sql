-- Tokens of input that were written to a provider's cache: they have a price of their own.

ALTER TABLE instructions ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;

PRAGMA user_version = 7;
