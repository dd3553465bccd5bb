-- The decisions of schema 33 as the tables of schema 32.
CREATE TEMP VIEW document_suggestions AS
SELECT number AS id, space, subject AS file, detail ->> '$.since' AS since, content, author, instruction, run, at_ms,
  reason, state, decided_by, decision_reason, version
FROM decisions WHERE kind = 'document' AND owner = space AND vote IS NULL;
CREATE TEMP VIEW soul_proposals AS
SELECT number AS id, owner AS agent, subject AS trait, content AS value, reason AS observation, space, instruction, run,
  at_ms, state, decided_by, decision_reason AS reason, version
FROM decisions WHERE kind = 'soul' AND detail = '{}' AND author IS NULL AND vote IS NULL;
CREATE TEMP VIEW tray AS
SELECT number AS id, owner AS agent, detail ->> '$.kind' AS kind, subject AS key, content AS value,
  CAST(detail ->> '$.messages' AS BLOB) AS messages, detail ->> '$.trust' AS trust, space, run, at_ms, state,
  decided_by, vote AS voted
FROM decisions WHERE kind = 'memory' AND reason = '' AND author IS NULL AND instruction IS NULL;
CREATE TEMP VIEW sequences AS
SELECT CASE kind WHEN 'memory' THEN 'tray' WHEN 'soul' THEN 'soul_proposals' ELSE 'document_suggestions' END AS name,
  newest AS seq
FROM decision_numbers;
