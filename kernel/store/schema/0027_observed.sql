-- Who reads the log behind its writer, and up to which event: what is counted for /metrics, what is told to a collector.
CREATE TABLE followers (
  name TEXT PRIMARY KEY,             -- metrics, or otel: and the digest of a unit of trust
  cursor INTEGER NOT NULL,           -- the event that was taken up last
  since_ms INTEGER NOT NULL,         -- when it began
  failing_ms INTEGER,                -- since when nothing could be delivered; null: the last time it could
  why TEXT,                          -- not
  dropped INTEGER NOT NULL DEFAULT 0 -- events that were refused for good
) STRICT, WITHOUT ROWID;

-- What was counted of events, up to the cursor of metrics: rows outlive the events that they are of.
CREATE TABLE counters (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,              -- JSON: the values of its labels, in order
  value REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX counters_name ON counters (name, labels);

-- What was spent, in the commit that books it: instructions are removed with their runs, and one may end twice.
CREATE TABLE model_spending (
  id INTEGER PRIMARY KEY,
  backend TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cache_read_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  cost_usd REAL NOT NULL             -- of what has a known price
) STRICT;
CREATE UNIQUE INDEX model_spending_model ON model_spending (backend, model);
INSERT INTO model_spending (backend, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd)
  SELECT coalesce(a.backend, ''), coalesce(i.model, ''), CAST(total(i.input_tokens) AS INTEGER),
    CAST(total(i.output_tokens) AS INTEGER), CAST(total(i.cache_read_tokens) AS INTEGER),
    CAST(total(i.cache_write_tokens) AS INTEGER), total(i.cost_usd)
  FROM instructions AS i LEFT JOIN agents AS a ON a.key = i.agent
  WHERE i.input_tokens + i.output_tokens + i.cache_read_tokens + i.cache_write_tokens > 0 OR i.cost_usd > 0
  GROUP BY 1, 2;

-- Work by when it ended, for stats over a time; of runs that landed, for what a change cost.
CREATE INDEX instructions_ended_at ON instructions (ended_ms) WHERE ended_ms IS NOT NULL;

PRAGMA user_version = 27;
