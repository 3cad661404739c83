-- A receiver that pulls asks for the next numbers of its endpoint. Rows are sorted by time, and
-- numbers grow with it: the least and greatest of each granule leave few to read.
ALTER TABLE {database:Identifier}.events
ADD INDEX IF NOT EXISTS by_sequence sequence TYPE minmax GRANULARITY 1;

ALTER TABLE {database:Identifier}.events
MATERIALIZE INDEX by_sequence;

-- Deliveries as they are now, with their numbers.
CREATE OR REPLACE VIEW {database:Identifier}.current_deliveries
AS SELECT
    d.event_id AS event_id,
    d.account_id AS account_id,
    d.endpoint_id AS endpoint_id,
    d.sequence AS sequence,
    d.moves AS moves,
    d.state AS state,
    d.run AS run,
    d.attempts AS attempts,
    if(d.state IN ('QUEUED', 'WAITING') AND d.version < e.version, least(d.next_attempt_at, e.enabled_at), d.next_attempt_at) AS next_attempt_at,
    d.state IN ('QUEUED', 'WAITING') AND p.status = 'disabled' AS held,
    d.created_at AS created_at,
    d.updated_at AS updated_at,
    d.version AS version
FROM (SELECT event_id, account_id, endpoint_id, sequence, moves, state, run, attempts, next_attempt_at, created_at, updated_at, version FROM {database:Identifier}.deliveries FINAL) AS d
LEFT JOIN (
    SELECT endpoint_id, max(endpoint_changes.version) AS version, argMax(changed_at, endpoint_changes.version) AS enabled_at
    FROM {database:Identifier}.endpoint_changes WHERE change = 'enabled' GROUP BY endpoint_id
) AS e ON d.endpoint_id = e.endpoint_id
LEFT JOIN (SELECT endpoint_id, status FROM {database:Identifier}.endpoints FINAL) AS p ON d.endpoint_id = p.endpoint_id
COMMENT 'Deliveries as they are now: state, run, attempts, when the next attempt is due, and whether it is held because its endpoint is disabled';
