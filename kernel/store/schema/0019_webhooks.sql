-- Webhooks out: up to which event each was told, and the deliveries that failed and are tried again.
CREATE TABLE webhooks (
  digest TEXT PRIMARY KEY,           -- of its unit of trust: another address, secret or choice of events is another webhook
  cursor INTEGER NOT NULL,           -- the event that was taken up last
  disabled INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1))
) STRICT;
CREATE TABLE webhook_retries (
  digest TEXT NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  event INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  due_ms INTEGER NOT NULL,
  PRIMARY KEY (digest, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_retries_due ON webhook_retries (digest, due_ms);

PRAGMA user_version = 19;
