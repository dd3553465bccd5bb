-- Groups: agents whose instances take work from one queue. An instance has the key of its group here, a group its own
-- key, an instance that leaves once its work has ended '', and any other agent null.
ALTER TABLE agents ADD COLUMN replica_of TEXT;
CREATE INDEX agents_replicas ON agents (replica_of) WHERE replica_of IS NOT NULL;

PRAGMA user_version = 36;
