-- What people ask for, under plain names. Every view reads collapsed rows, so
-- that a fact that was written twice counts once. Copies of a row lie in the same
-- month, which lets ClickHouse collapse the months apart from each other.
CREATE OR REPLACE VIEW {database:Identifier}.current_deliveries
AS SELECT
    d.event_id AS event_id,
    d.account_id AS account_id,
    d.endpoint_id AS endpoint_id,
    d.moves AS moves,
    d.state AS state,
    d.run AS run,
    d.attempts AS attempts,
    if(d.state IN ('QUEUED', 'WAITING') AND d.version < e.version, least(d.next_attempt_at, e.enabled_at), d.next_attempt_at) AS next_attempt_at,
    d.state IN ('QUEUED', 'WAITING') AND p.status = 'disabled' AS held,
    d.created_at AS created_at,
    d.updated_at AS updated_at,
    d.version AS version
FROM (SELECT event_id, account_id, endpoint_id, moves, state, run, attempts, next_attempt_at, created_at, updated_at, version FROM {database:Identifier}.deliveries FINAL) AS d
LEFT JOIN (
    SELECT endpoint_id, max(endpoint_changes.version) AS version, argMax(changed_at, endpoint_changes.version) AS enabled_at
    FROM {database:Identifier}.endpoint_changes WHERE change = 'enabled' GROUP BY endpoint_id
) AS e ON d.endpoint_id = e.endpoint_id
LEFT JOIN (SELECT endpoint_id, status FROM {database:Identifier}.endpoints FINAL) AS p ON d.endpoint_id = p.endpoint_id
COMMENT 'Deliveries as they are now: state, run, attempts, when the next attempt is due, and whether it is held because its endpoint is disabled';

CREATE OR REPLACE VIEW {database:Identifier}.attempt_outcomes
AS SELECT
    event_id, number, run, event_type, endpoint_id, sent_at, duration_ms, status_code, CAST(attempts.error, 'String') AS error, CAST(attempts.state, 'String') AS state, next_attempt_at, version,
    multiIf(state = 'DELIVERED', 'delivered', error != '', error, status_code IS NOT NULL, concat('HTTP ', toString(assumeNotNull(status_code))), 'unknown') AS outcome,
    state = 'DELIVERED' AS succeeded
FROM {database:Identifier}.attempts FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Attempts, one row each, with an outcome in one word: delivered, an error code, or the HTTP status';

CREATE OR REPLACE VIEW {database:Identifier}.attempts_per_minute
AS SELECT toStartOfMinute(sent_at) AS minute, outcome, count() AS attempts
FROM {database:Identifier}.attempt_outcomes
GROUP BY minute, outcome
COMMENT 'How many attempts were made in each minute, by outcome';

CREATE OR REPLACE VIEW {database:Identifier}.endpoint_health
AS SELECT
    endpoint_id,
    toStartOfHour(sent_at) AS hour,
    count() AS attempts,
    countIf(succeeded) AS succeeded_attempts,
    round(countIf(succeeded) / count(), 4) AS success_rate,
    quantile(0.5)(duration_ms) AS p50_ms,
    quantile(0.95)(duration_ms) AS p95_ms,
    quantile(0.99)(duration_ms) AS p99_ms,
    max(duration_ms) AS max_ms
FROM {database:Identifier}.attempt_outcomes
GROUP BY endpoint_id, hour
COMMENT 'Success rate and duration of attempts, by endpoint and hour';

CREATE OR REPLACE VIEW {database:Identifier}.error_mix
AS SELECT endpoint_id, toDate(sent_at) AS day, outcome, count() AS attempts
FROM {database:Identifier}.attempt_outcomes
WHERE NOT succeeded
GROUP BY endpoint_id, day, outcome
COMMENT 'What failed attempts failed of, by endpoint and day';

CREATE OR REPLACE VIEW {database:Identifier}.retry_ladder
AS SELECT
    number AS attempt,
    count() AS attempts,
    countIf(state = 'DELIVERED') AS delivered,
    countIf(state = 'WAITING') AS to_be_retried,
    countIf(state = 'FAILED') AS failed_for_good,
    round(countIf(state = 'DELIVERED') / count(), 4) AS success_rate
FROM {database:Identifier}.attempt_outcomes
GROUP BY attempt
COMMENT 'How many deliveries succeed at which attempt, counted over all runs';

CREATE OR REPLACE VIEW {database:Identifier}.first_delivery_times
AS SELECT
    e.event_id AS event_id, e.account_id AS account_id, e.endpoint_id AS endpoint_id, e.ledger_closed_at AS ledger_closed_at, e.created_at AS created_at,
    f.first_sent_at AS first_sent_at, f.delivered_at AS delivered_at,
    dateDiff('millisecond', toDateTime64(assumeNotNull(e.ledger_closed_at), 3, 'UTC'), f.delivered_at) AS close_to_delivery_ms,
    dateDiff('millisecond', e.created_at, f.first_sent_at) AS created_to_first_attempt_ms
FROM {database:Identifier}.events AS e FINAL
INNER JOIN (
    SELECT event_id, endpoint_id, min(sent_at) AS first_sent_at, minIf(addMilliseconds(sent_at, duration_ms), state = 'DELIVERED') AS delivered_at, countIf(state = 'DELIVERED') AS deliveries
    FROM {database:Identifier}.attempts GROUP BY event_id, endpoint_id HAVING deliveries > 0
) AS f ON e.event_id = f.event_id AND e.endpoint_id = f.endpoint_id
WHERE e.ledger_closed_at IS NOT NULL
COMMENT 'How long it took from the close of a payment''s ledger to its first delivery. A close has whole seconds, so a time is up to a second too long';

CREATE OR REPLACE VIEW {database:Identifier}.endpoints_near_disabling
AS SELECT
    a.endpoint_id AS endpoint_id, any(p.account_id) AS account_id, any(p.url) AS url,
    countIf(a.state = 'FAILED' AND a.version > r.version) AS consecutive_failures,
    maxIf(a.sent_at, a.state = 'FAILED') AS last_failed_at
FROM {database:Identifier}.attempt_outcomes AS a
INNER JOIN (SELECT endpoint_id, account_id, url FROM {database:Identifier}.endpoints FINAL WHERE status = 'active') AS p ON a.endpoint_id = p.endpoint_id
LEFT JOIN (
    SELECT endpoint_id, max(at) AS version FROM (
        SELECT endpoint_id, attempts.version AS at FROM {database:Identifier}.attempts WHERE state = 'DELIVERED' AND event_type != 'test.ping'
        UNION ALL SELECT endpoint_id, endpoint_changes.version FROM {database:Identifier}.endpoint_changes WHERE change = 'enabled'
    ) GROUP BY endpoint_id
) AS r ON a.endpoint_id = r.endpoint_id
WHERE a.event_type != 'test.ping'
GROUP BY endpoint_id
HAVING consecutive_failures > 0
ORDER BY consecutive_failures DESC
COMMENT 'Active endpoints whose last deliveries failed for good, and how many in a row; at 20 an endpoint is disabled';

CREATE OR REPLACE VIEW {database:Identifier}.payments_per_watch
AS SELECT
    e.watch_id AS watch_id, any(w.label) AS label, any(e.wallet_address) AS wallet_address, e.type AS type, e.asset_code AS asset_code, e.asset_issuer AS asset_issuer,
    count() AS payments, sum(CAST(e.amount_stroops, 'Decimal(38, 7)')) / 10000000 AS amount, min(e.ledger_closed_at) AS first_closed_at, max(e.ledger_closed_at) AS last_closed_at
FROM {database:Identifier}.events AS e FINAL
LEFT JOIN (SELECT watch_id, label FROM {database:Identifier}.watches FINAL) AS w ON e.watch_id = w.watch_id
WHERE e.watch_id != '' AND e.moves = 0
GROUP BY watch_id, type, asset_code, asset_issuer
COMMENT 'How many payments each watch reported, and how much, by type of event and asset';
