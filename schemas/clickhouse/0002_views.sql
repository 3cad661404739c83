-- The views: answers to common questions, with a unit for every column. Every view reads collapsed
-- rows, so a fact that was written twice counts once. Copies of a row are in the same month, so
-- ClickHouse can collapse each month separately.
CREATE OR REPLACE VIEW {database:Identifier}.current_deliveries
(
    event_id        String                                             COMMENT 'Event that is delivered; events has its payment',
    account_id      SimpleAggregateFunction(max, String)               COMMENT 'Account of the endpoint',
    endpoint_id     String                                             COMMENT 'Endpoint that receives the event',
    sequence        SimpleAggregateFunction(max, UInt64)               COMMENT 'Number of the event at its endpoint',
    moves           SimpleAggregateFunction(max, UInt32)               COMMENT 'How often the event had moved to another endpoint before; 0 for most events',
    state           String                                             COMMENT 'QUEUED, WAITING, DELIVERED, FAILED or CANCELLED',
    run             SimpleAggregateFunction(max, UInt32)               COMMENT '1 for the first delivery, one more for each replay',
    attempts        SimpleAggregateFunction(max, UInt32)               COMMENT 'Attempts of all runs so far',
    next_attempt_at Nullable(DateTime64(3, 'UTC'))                     COMMENT 'When the next attempt is due, UTC; NULL if there is none',
    held            UInt8                                              COMMENT '1 if the delivery waits because its endpoint is disabled',
    created_at      SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the delivery was created, UTC, in milliseconds',
    updated_at      SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the state last changed, UTC, in milliseconds',
    version         SimpleAggregateFunction(max, UInt64)               COMMENT 'Version of the endpoint in the journal at the last change'
)
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

CREATE OR REPLACE VIEW {database:Identifier}.attempt_outcomes
(
    event_id        String                         COMMENT 'Event that was sent',
    number          UInt32                         COMMENT 'Number of the attempt over all runs; 1 is the first',
    run             UInt32                         COMMENT '1 for the first delivery, one more for each replay',
    event_type      LowCardinality(String)         COMMENT 'payment.received, payment.rejected, endpoint.failing, test.ping and others',
    endpoint_id     String                         COMMENT 'Endpoint that the attempt was sent to',
    sent_at         DateTime64(3, 'UTC')           COMMENT 'When the request was sent, UTC, in milliseconds',
    duration_ms     UInt32                         COMMENT 'Milliseconds from the request to the answer, or to the failure',
    status_code     Nullable(UInt16)               COMMENT 'HTTP status of the answer; NULL if there was none',
    error           String                         COMMENT 'Code of a failure without a usable answer, such as TIMEOUT; empty otherwise',
    error_detail    String                         COMMENT 'At which stage the attempt failed, and why; empty if it did not',
    state           String                         COMMENT 'State of the delivery after the attempt',
    next_attempt_at Nullable(DateTime64(3, 'UTC')) COMMENT 'When the next attempt is due, UTC; NULL unless the state is WAITING',
    version         UInt64                         COMMENT 'Version of the endpoint in the journal after the attempt',
    outcome         String                         COMMENT 'delivered, a failure code such as TIMEOUT, or the status, such as HTTP 500',
    succeeded       UInt8                          COMMENT '1 if the receiver accepted the event'
)
AS SELECT
    event_id, number, run, event_type, endpoint_id, sent_at, duration_ms, status_code, CAST(attempts.error, 'String') AS error, error_detail, CAST(attempts.state, 'String') AS state, next_attempt_at, version,
    multiIf(state = 'DELIVERED', 'delivered', error != '', error, status_code IS NOT NULL, concat('HTTP ', toString(assumeNotNull(status_code))), 'unknown') AS outcome,
    state = 'DELIVERED' AS succeeded
FROM {database:Identifier}.attempts FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Attempts, one row each, with an outcome in one word: delivered, an error code, or the HTTP status';

CREATE OR REPLACE VIEW {database:Identifier}.attempts_per_minute
(
    minute   DateTime('UTC') COMMENT 'Beginning of the minute, UTC',
    outcome  String          COMMENT 'delivered, a failure code such as TIMEOUT, or the status, such as HTTP 500',
    attempts UInt64          COMMENT 'Attempts sent in the minute, test pings included'
)
AS SELECT toStartOfMinute(sent_at) AS minute, outcome, count() AS attempts
FROM {database:Identifier}.attempt_outcomes
GROUP BY minute, outcome
COMMENT 'How many attempts were made in each minute, by outcome';

CREATE OR REPLACE VIEW {database:Identifier}.endpoint_health
(
    endpoint_id        String          COMMENT 'Endpoint',
    hour               DateTime('UTC') COMMENT 'Beginning of the hour in which the attempts were sent, UTC',
    attempts           UInt64          COMMENT 'Attempts, test pings included. Deliveries without an attempt are not in this view',
    succeeded_attempts UInt64          COMMENT 'Attempts that the receiver accepted',
    success_rate       Float64         COMMENT 'succeeded_attempts / attempts, from 0 to 1',
    p50_ms             Float64         COMMENT 'Median duration of an attempt in milliseconds, failed attempts included; an estimate',
    p95_ms             Float64         COMMENT '95th percentile of the durations in milliseconds; an estimate',
    p99_ms             Float64         COMMENT '99th percentile of the durations in milliseconds; an estimate',
    max_ms             UInt32          COMMENT 'Longest duration in milliseconds'
)
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
(
    endpoint_id String COMMENT 'Endpoint',
    day         Date   COMMENT 'Day on which the attempts were sent, UTC',
    outcome     String COMMENT 'A failure code such as TIMEOUT, or the status, such as HTTP 500',
    attempts    UInt64 COMMENT 'Failed attempts. A delivery that is retried counts once for each attempt'
)
AS SELECT endpoint_id, toDate(sent_at) AS day, outcome, count() AS attempts
FROM {database:Identifier}.attempt_outcomes
WHERE NOT succeeded
GROUP BY endpoint_id, day, outcome
COMMENT 'Failed attempts by cause, endpoint and day';

CREATE OR REPLACE VIEW {database:Identifier}.retry_ladder
(
    attempt         UInt32  COMMENT 'Number of the attempt over all runs; 1 is the first',
    attempts        UInt64  COMMENT 'Attempts with this number. Deliveries without an attempt are not in this view',
    delivered       UInt64  COMMENT 'Attempts that the receiver accepted',
    to_be_retried   UInt64  COMMENT 'Attempts that failed and were followed by a retry, or still are to be',
    failed_for_good UInt64  COMMENT 'Attempts that failed and were the last of their run',
    success_rate    Float64 COMMENT 'delivered / attempts, from 0 to 1'
)
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
(
    event_id                    String                    COMMENT 'Event that was delivered at least once. Waiting and failed deliveries are not in this view',
    account_id                  String                    COMMENT 'Account of the endpoint',
    endpoint_id                 String                    COMMENT 'Endpoint that received it',
    ledger_closed_at            Nullable(DateTime('UTC')) COMMENT 'When the payment''s ledger closed, UTC, in whole seconds',
    created_at                  DateTime64(3, 'UTC')      COMMENT 'When the event was created, UTC, in milliseconds',
    first_sent_at               DateTime64(3, 'UTC')      COMMENT 'When the first attempt was sent, UTC, in milliseconds',
    delivered_at                DateTime64(3, 'UTC')      COMMENT 'When the receiver first accepted the event, UTC, in milliseconds',
    close_to_delivery_ms        Int64                     COMMENT 'Milliseconds from ledger_closed_at to delivered_at. The close counts in whole seconds, so this is up to 1000 ms too long',
    created_to_first_attempt_ms Int64                     COMMENT 'Milliseconds from created_at to first_sent_at'
)
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
COMMENT 'Time from the close of a payment''s ledger to its first delivery. Only delivered events: current_deliveries has those that wait or failed';

CREATE OR REPLACE VIEW {database:Identifier}.endpoints_near_disabling
(
    endpoint_id          String               COMMENT 'Active endpoint. Disabled endpoints are not in this view',
    account_id           String               COMMENT 'Account of the endpoint',
    url                  String               COMMENT 'Where it receives events',
    consecutive_failures UInt64               COMMENT 'Deliveries that failed for good since the last success; at 20 the endpoint is disabled',
    last_failed_at       DateTime64(3, 'UTC') COMMENT 'When the last of their attempts was sent, UTC, in milliseconds'
)
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
(
    watch_id        String                    COMMENT 'Watch that reported the payments',
    label           String                    COMMENT 'Label of the watch',
    wallet_address  String                    COMMENT 'Wallet of the watch (G…)',
    type            LowCardinality(String)    COMMENT 'payment.received, or payment.rejected for payments that the watch''s rules rejected',
    asset_code      LowCardinality(String)    COMMENT 'Code of the asset; XLM without an issuer is the native one',
    asset_issuer    LowCardinality(String)    COMMENT 'Issuer of the asset (G…); empty for the native asset',
    payments        UInt64                    COMMENT 'Payments with an event, delivered or not. A payment that two watches report is in both rows',
    amount          Decimal(38, 7)            COMMENT 'Sum of the amounts in units of the asset, with 7 digits after the point',
    first_closed_at Nullable(DateTime('UTC')) COMMENT 'When the ledger of the first payment closed, UTC, in whole seconds',
    last_closed_at  Nullable(DateTime('UTC')) COMMENT 'When the ledger of the last payment closed, UTC, in whole seconds'
)
AS SELECT
    e.watch_id AS watch_id, any(w.label) AS label, any(e.wallet_address) AS wallet_address, e.type AS type, e.asset_code AS asset_code, e.asset_issuer AS asset_issuer,
    count() AS payments, sum(CAST(e.amount_stroops, 'Decimal(38, 7)')) / 10000000 AS amount, min(e.ledger_closed_at) AS first_closed_at, max(e.ledger_closed_at) AS last_closed_at
FROM {database:Identifier}.events AS e FINAL
LEFT JOIN (SELECT watch_id, label FROM {database:Identifier}.watches FINAL) AS w ON e.watch_id = w.watch_id
WHERE e.watch_id != '' AND e.moves = 0
GROUP BY watch_id, type, asset_code, asset_issuer
COMMENT 'How many payments each watch reported, and how much, by type of event and asset';

CREATE OR REPLACE VIEW {database:Identifier}.unexplained_moves
(
    wallet_address      String                 COMMENT 'Watched wallet (G…)',
    balance             LowCardinality(String) COMMENT 'Which of its balances: XLM, CODE:ISSUER, or pool:ID',
    ledger              UInt32                 COMMENT 'Sequence number of the ledger',
    ledger_closed_at    DateTime('UTC')        COMMENT 'When the ledger closed, UTC, in whole seconds',
    tx_hash             String                 COMMENT 'Hash of the transaction, 64 hex digits',
    move_id             String                 COMMENT 'Identifier of the move (mov_…)',
    last_after_stroops  Int64                  COMMENT 'Balance after the move before this one, in stroops (10,000,000 are one unit)',
    before_stroops      Int64                  COMMENT 'Balance before this move, in stroops',
    unexplained_stroops Int64                  COMMENT 'before_stroops - last_after_stroops: what changed the balance and is not in balance_moves'
)
AS SELECT wallet_address, balance, ledger, ledger_closed_at, tx_hash, move_id, last_after_stroops, before_stroops, before_stroops - last_after_stroops AS unexplained_stroops
FROM (
    SELECT wallet_address, balance, ledger, ledger_closed_at, tx_hash, move_id, before_stroops,
        lagInFrame(after_stroops, 1, before_stroops) OVER (PARTITION BY wallet_address, balance ORDER BY ledger, place ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS last_after_stroops
    FROM {database:Identifier}.balance_moves FINAL
)
WHERE before_stroops != last_after_stroops
COMMENT 'Moves that do not begin where the last move of the same balance ended: a ledger was missed, a source was wrong, or the wallet was not watched in between. None is expected';

CREATE OR REPLACE VIEW {database:Identifier}.delivery_lateness
(
    event_id         String                       COMMENT 'Event about a payment. Pings and notices are not in this view',
    account_id       String                       COMMENT 'Account of the endpoint',
    endpoint_id      String                       COMMENT 'Endpoint that the event is for',
    state            String                       COMMENT 'QUEUED, WAITING, DELIVERED, FAILED or CANCELLED',
    attempts         UInt32                       COMMENT 'Attempts so far',
    ledger_closed_at DateTime('UTC')              COMMENT 'When the payment''s ledger closed, UTC, in whole seconds',
    delivered_at     Nullable(DateTime64(3, 'UTC')) COMMENT 'When the receiver first accepted the event, UTC, in milliseconds; NULL if it has not',
    late_ms          Int64                        COMMENT 'Milliseconds from ledger_closed_at to delivered_at, or to now if the event is not delivered. The close counts in whole seconds, so this is up to 1000 ms too long'
)
AS SELECT
    d.event_id AS event_id, d.account_id AS account_id, d.endpoint_id AS endpoint_id, d.state AS state, d.attempts AS attempts,
    assumeNotNull(e.ledger_closed_at) AS ledger_closed_at,
    if(f.event_id = '', NULL, f.delivered_at) AS delivered_at,
    dateDiff('millisecond', toDateTime64(assumeNotNull(e.ledger_closed_at), 3, 'UTC'), if(f.event_id = '', now64(3, 'UTC'), f.delivered_at)) AS late_ms
FROM {database:Identifier}.current_deliveries AS d
INNER JOIN (SELECT event_id, endpoint_id, ledger_closed_at FROM {database:Identifier}.events FINAL WHERE ledger_closed_at IS NOT NULL) AS e ON d.event_id = e.event_id AND d.endpoint_id = e.endpoint_id
LEFT JOIN {database:Identifier}.first_delivery_times AS f ON d.event_id = f.event_id AND d.endpoint_id = f.endpoint_id
COMMENT 'How late each payment''s webhook is, including those that wait or failed';
