-- The tables and views of the history. Each statement may be repeated without effect.

-- Payments to watched wallets, as the ledger has them: one row each. A ledger
-- may be read again, and then a payment is in its topic more than once: the
-- first record wins, here by its offset.
CREATE TABLE IF NOT EXISTS {database:Identifier}.payments
(
    payment_id       String                 COMMENT 'Identifier of the payment (operation); data.payment.id in events' CODEC(ZSTD(1)),
    tx_hash          String                 COMMENT 'Hash of the transaction, 64 hex digits' CODEC(ZSTD(1)),
    ledger           UInt32                 COMMENT 'Sequence number of the ledger' CODEC(Delta, ZSTD(1)),
    ledger_closed_at DateTime('UTC')        COMMENT 'When the ledger was closed, whole seconds' CODEC(Delta, ZSTD(1)),
    operation        LowCardinality(String) COMMENT 'Operation that paid, such as payment or path_payment_strict_send',
    from_address     String                 COMMENT 'Sender (G… or C…); from in events' CODEC(ZSTD(1)),
    to_address       String                 COMMENT 'Watched wallet that was paid (G…); to in events' CODEC(ZSTD(1)),
    to_muxed_id      Nullable(String)       COMMENT 'Id of the muxed address that was paid; NULL when there is none',
    memo             Nullable(String)       COMMENT 'Memo as events show it; NULL when there is none' CODEC(ZSTD(1)),
    memo_type        LowCardinality(String) COMMENT 'text, id, hash or return; empty when there is no memo',
    asset_code       LowCardinality(String) COMMENT 'Code of the asset; XLM is the native one when it has no issuer',
    asset_issuer     LowCardinality(String) COMMENT 'Issuer of the asset (G…); empty for the native asset',
    amount_stroops   Int64                  COMMENT 'Amount in stroops: 10,000,000 make one unit' CODEC(ZSTD(1)),
    amount           Decimal(38, 7)         ALIAS CAST(amount_stroops, 'Decimal(38, 7)') / 10000000 COMMENT 'Amount in units, with 7 digits after the point',
    observed_at      DateTime64(3, 'UTC')   COMMENT 'When the follower read it' CODEC(Delta, ZSTD(1)),
    topic            LowCardinality(String) DEFAULT 'payments' COMMENT 'Topic of the record, without the deployment''s prefix',
    partition        Int32                  COMMENT 'Partition of the record' CODEC(ZSTD(1)),
    offset           Int64                  COMMENT 'Offset of the record' CODEC(Delta, ZSTD(1)),
    first_wins       UInt64                 MATERIALIZED 18446744073709551615 - toUInt64(offset) COMMENT 'Falls as the offset rises, so that the first record of a payment is kept' CODEC(Delta, ZSTD(1)),
    INDEX by_transaction tx_hash TYPE bloom_filter(0.01) GRANULARITY 16
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(ledger_closed_at)
ORDER BY (to_address, ledger_closed_at, payment_id)
COMMENT 'Payments to watched wallets, one row each. May hold copies of a row until parts are merged: read with FINAL';

-- Every change of a watched wallet's balances, one row each: what a statement is
-- made of. A ledger may be read again, and then a move is in its topic more than
-- once: the first record wins, here by its offset.
CREATE TABLE IF NOT EXISTS {database:Identifier}.balance_moves
(
    move_id          String                 COMMENT 'Identifier of the move (mov_…)' CODEC(ZSTD(1)),
    wallet_address   String                 COMMENT 'Watched wallet (G…)' CODEC(ZSTD(1)),
    balance          LowCardinality(String) COMMENT 'Which of its balances: XLM, CODE:ISSUER, or pool:ID for shares in a liquidity pool',
    kind             LowCardinality(String) COMMENT 'payment_in, outgoing, create, merge, fee, trade, claim, pool, clawback, contract or other',
    ledger           UInt32                 COMMENT 'Sequence number of the ledger' CODEC(Delta, ZSTD(1)),
    ledger_closed_at DateTime('UTC')        COMMENT 'When the ledger was closed, whole seconds' CODEC(Delta, ZSTD(1)),
    place            UInt64                 COMMENT 'Orders the moves of a ledger; it says nothing else' CODEC(ZSTD(1)),
    tx_hash          String                 COMMENT 'Hash of the transaction, 64 hex digits' CODEC(ZSTD(1)),
    operation        UInt32                 COMMENT 'Operation of the transaction; 1 is the first, 0 is beside them, as fees are' CODEC(ZSTD(1)),
    before_stroops   Int64                  COMMENT 'Balance before, in stroops; 0 where there was no account or trust line' CODEC(ZSTD(1)),
    after_stroops    Int64                  COMMENT 'Balance after, in stroops; 0 where there is none any more' CODEC(ZSTD(1)),
    change_stroops   Int64                  ALIAS after_stroops - before_stroops COMMENT 'How much more the wallet has, in stroops',
    change           Decimal(38, 7)         ALIAS CAST(after_stroops - before_stroops, 'Decimal(38, 7)') / 10000000 COMMENT 'How much more the wallet has, in units, with 7 digits after the point',
    payment_ids      Array(String)          COMMENT 'Payments to the wallet in this operation and asset; payment_id in payments' CODEC(ZSTD(1)),
    observed_at      DateTime64(3, 'UTC')   COMMENT 'When the follower read it' CODEC(Delta, ZSTD(1)),
    topic            LowCardinality(String) DEFAULT 'payments' COMMENT 'Topic of the record, without the deployment''s prefix',
    partition        Int32                  COMMENT 'Partition of the record' CODEC(ZSTD(1)),
    offset           Int64                  COMMENT 'Offset of the record' CODEC(Delta, ZSTD(1)),
    first_wins       UInt64                 MATERIALIZED 18446744073709551615 - toUInt64(offset) COMMENT 'Falls as the offset rises, so that the first record of a move is kept' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(ledger_closed_at)
ORDER BY (wallet_address, ledger_closed_at, move_id)
COMMENT 'Changes of the balances of watched wallets, one row each. May hold copies of a row until parts are merged: read with FINAL';

-- What receivers are told: one row for each delivery of an event, written when it
-- is created and never changed. That is one row for each event, but for those
-- that were handed over to another endpoint. Copies of a row come from the same
-- fact, so they are alike in every column.
--
-- Lists read an account's events newest first, so that is the order. One event
-- is found through deliveries, which is ordered by event and knows the account
-- and the time. A granule holds 256 rows, not 8192: a body is about 900 bytes,
-- and reading one event should not decompress megabytes. The other columns
-- have small blocks for the same reason; bodies keep large ones, for in small
-- ones they take half as much again on disk. The filters of lists
-- have indexes, so that a rare endpoint's events are not looked for row by row.
CREATE TABLE IF NOT EXISTS {database:Identifier}.events
(
    event_id         String                 COMMENT 'Identifier of the event (evt_…); the API calls it id' CODEC(ZSTD(1)),
    type             LowCardinality(String) COMMENT 'Type of the event, such as payment.received',
    account_id       String                 COMMENT 'Account that the event belongs to (acc_…)' CODEC(ZSTD(1)),
    endpoint_id      String                 COMMENT 'Endpoint that the event is delivered to (ep_…)' CODEC(ZSTD(1)),
    watch_id         String                 COMMENT 'Watch that matched (wat_…); empty for test.ping' CODEC(ZSTD(1)),
    wallet_address   String                 COMMENT 'Watched wallet (G…); empty for test.ping' CODEC(ZSTD(1)),
    created_at       DateTime64(3, 'UTC')   COMMENT 'When the event was made; createdAt of the envelope' CODEC(Delta, ZSTD(1)),
    body             String                 COMMENT 'The envelope as JSON, byte for byte as it is sent' CODEC(ZSTD(1)) SETTINGS (min_compress_block_size = 65536, max_compress_block_size = 1048576),
    payment_id       String                 DEFAULT extract(body, '"payment":\\{"id":"([^"]*)"') COMMENT 'Payment that the event is about; empty for test.ping' CODEC(ZSTD(1)),
    tx_hash          String                 DEFAULT visitParamExtractString(body, 'txHash') COMMENT 'Hash of the payment''s transaction, 64 hex digits; empty for test.ping' CODEC(ZSTD(1)),
    from_address     String                 DEFAULT visitParamExtractString(body, 'from') COMMENT 'Sender of the payment (G… or C…); empty for test.ping' CODEC(ZSTD(1)),
    memo             String                 DEFAULT visitParamExtractString(body, 'memo') COMMENT 'Memo of the payment as the event shows it; empty when there is none' CODEC(ZSTD(1)),
    asset_code       LowCardinality(String) DEFAULT visitParamExtractString(body, 'code') COMMENT 'Code of the asset that was paid; empty for test.ping',
    asset_issuer     LowCardinality(String) DEFAULT visitParamExtractString(body, 'issuer') COMMENT 'Issuer of that asset; empty for the native asset',
    amount_stroops   Int64                  DEFAULT toInt64OrZero(visitParamExtractString(body, 'amountStroops')) COMMENT 'Amount that was paid, in stroops; 0 for test.ping' CODEC(ZSTD(1)),
    amount           Decimal(38, 7)         ALIAS CAST(amount_stroops, 'Decimal(38, 7)') / 10000000 COMMENT 'Amount that was paid, in units',
    ledger_closed_at Nullable(DateTime('UTC')) DEFAULT parseDateTimeBestEffortOrNull(visitParamExtractString(body, 'ledgerClosedAt'), 'UTC') COMMENT 'When the payment''s ledger was closed; NULL for test.ping' CODEC(ZSTD(1)),
    sequence         UInt64                    COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it' CODEC(Delta, ZSTD(1)),
    moves            UInt32                 COMMENT 'How often the event was handed over to another endpoint before this row; the row of 0 is an event''s first' CODEC(ZSTD(1)),
    version          UInt64                 COMMENT 'Version of the endpoint that the fact made; counts the endpoint''s facts' CODEC(Delta, ZSTD(1)),
    topic            LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition        Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset           Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1)),
    INDEX by_endpoint endpoint_id TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_watch watch_id TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_wallet wallet_address TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_sequence sequence TYPE minmax GRANULARITY 1,
    INDEX by_payment payment_id TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_transaction tx_hash TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_sender from_address TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_memo memo TYPE bloom_filter(0.01) GRANULARITY 16
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, created_at, event_id, endpoint_id)
SETTINGS index_granularity = 256, min_compress_block_size = 4096, max_compress_block_size = 16384
COMMENT 'Events, one row for each endpoint that they were sent to: WHERE moves = 0 gives each once. May hold copies of a row until parts are merged: read with FINAL';

-- Every attempt that was made: one row for each event and attempt number.
-- Copies of a row come from the same fact and are alike in every column.
--
-- People ask for an endpoint and a time, so that is the order; it is also the
-- one that packs best. The attempts of one event are found through deliveries,
-- which knows the endpoint and when each was sent. The account is not here,
-- because the fact does not name it: join events or endpoints for it. A granule
-- holds 256 rows in blocks of 16 KiB: one attempt is read in a tenth less
-- time than with 1024 rows and 64 KiB, for 3% more on disk.
CREATE TABLE IF NOT EXISTS {database:Identifier}.attempts
(
    event_id        String                        COMMENT 'Identifier of the event (evt_…)' CODEC(ZSTD(1)),
    number          UInt32                        COMMENT 'Number of the attempt over all runs; 1 is the first' CODEC(ZSTD(1)),
    run             UInt32                        COMMENT 'Run of the delivery; a requeued delivery begins another' CODEC(ZSTD(1)),
    event_type      LowCardinality(String)        COMMENT 'Type of the event, such as payment.received',
    endpoint_id     String                        COMMENT 'Endpoint that was sent to (ep_…)' CODEC(ZSTD(1)),
    sent_at         DateTime64(3, 'UTC')          COMMENT 'When the request was sent' CODEC(Delta, ZSTD(1)),
    duration_ms     UInt32                        COMMENT 'How long the attempt took, in milliseconds' CODEC(ZSTD(1)),
    status_code     Nullable(UInt16)              COMMENT 'HTTP status that arrived; NULL when none did' CODEC(ZSTD(1)),
    error           LowCardinality(String)        COMMENT 'Code of what went wrong, such as TIMEOUT; empty when nothing did',
    error_detail    String                        COMMENT 'Stage and cause of the error, such as: connect: connection refused; empty when there was none' CODEC(ZSTD(1)),
    response_body   String                        COMMENT 'The first 1 KiB of the answer, as sent; it need not be UTF-8' CODEC(ZSTD(3)),
    state           LowCardinality(String)        COMMENT 'State of the delivery after this attempt: DELIVERED, WAITING or FAILED',
    next_attempt_at Nullable(DateTime64(3, 'UTC')) COMMENT 'When the next attempt is due; NULL unless the state is WAITING' CODEC(ZSTD(1)),
    log_from        UInt64                         COMMENT 'Log that the attempt is a leaf of: the version that its first leaf made' CODEC(Delta, ZSTD(1)),
    leaf            UInt64                         COMMENT 'Number of the leaf in the log; 1 is the first' CODEC(Delta, ZSTD(1)),
    body_sha256     String                         COMMENT 'SHA-256 of the request''s body, 32 bytes: hex() shows it' CODEC(ZSTD(1)),
    signature_sha256 String                         COMMENT 'SHA-256 of the value of Webhook-Signature, 32 bytes: hex() shows it' CODEC(ZSTD(1)),
    version         UInt64                        COMMENT 'Version of the endpoint that the fact made; orders the facts of an endpoint' CODEC(Delta, ZSTD(1)),
    topic           LowCardinality(String)        DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition       Int32                         COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset          Int64                         COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(sent_at)
ORDER BY (endpoint_id, sent_at, event_id, number)
SETTINGS index_granularity = 256, min_compress_block_size = 16384, max_compress_block_size = 65536
COMMENT 'Delivery attempts, one row each. May hold copies of a row until parts are merged: read with FINAL, or LIMIT 1 BY event_id, number';

-- The hashes of the logs. They outlive what they are of: without those of old leaves no new leaf
-- can be proved, so rows of this table do not expire. A proof reads a few rows by their numbers.
CREATE TABLE IF NOT EXISTS {database:Identifier}.attempt_log
(
    endpoint_id String                 COMMENT 'Endpoint whose attempts are the leaves (ep_…)' CODEC(ZSTD(1)),
    log_from    UInt64                 COMMENT 'Version of the endpoint that the first leaf made; names the log' CODEC(Delta, ZSTD(1)),
    leaf        UInt64                 COMMENT 'Number of the leaf; 1 is the first' CODEC(Delta, ZSTD(1)),
    hashes      String                 COMMENT 'Hashes of the leaf and of each subtree of the Merkle tree that it completes, the smallest first, 32 bytes each' CODEC(NONE),
    sent_at     DateTime64(3, 'UTC')   COMMENT 'When the request was sent' CODEC(Delta, ZSTD(1)),
    version     UInt64                 COMMENT 'Version of the endpoint that the fact made' CODEC(Delta, ZSTD(1)),
    topic       LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset      Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (endpoint_id, log_from, leaf)
SETTINGS index_granularity = 256
COMMENT 'Transparency logs of attempts, a leaf each, one log for each endpoint. May hold copies of a row until parts are merged';

-- How an endpoint does: attempts counted by spans of time, and what has not ended yet.
--
-- An attempt is one member of a set: the version of the endpoint that its fact made, which no other
-- fact has. So a fact that is written twice counts once, as a sum would not, and the count of a set
-- is exact. Versions are dense, so a set takes a few bits per attempt. Spans of 300 seconds are for
-- the last hour, those of 3600 for days.
CREATE TABLE IF NOT EXISTS {database:Identifier}.attempt_counts
(
    endpoint_id  String                                COMMENT 'Endpoint that was sent to (ep_…)' CODEC(ZSTD(1)),
    seconds      UInt32                                COMMENT 'Length of the span: 300 or 3600; an attempt is in one of each' CODEC(ZSTD(1)),
    at           DateTime('UTC')                       DEFAULT toDateTime(intDiv(fact_sent, 1000 * seconds) * seconds, 'UTC') COMMENT 'Start of the span' CODEC(Delta, ZSTD(1)),
    delivered    AggregateFunction(groupBitmap, UInt64) DEFAULT bitmapBuild(arrayFilter(v -> fact_state = 'DELIVERED', [fact_version])) COMMENT 'Attempts that delivered: groupBitmapMerge(delivered) counts them' CODEC(ZSTD(1)),
    failed       AggregateFunction(groupBitmap, UInt64) DEFAULT bitmapBuild(arrayFilter(v -> fact_state != 'DELIVERED', [fact_version])) COMMENT 'All others: groupBitmapMerge(failed) counts them' CODEC(ZSTD(1)),
    delivered_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) DEFAULT fromUnixTimestamp64Milli(if(fact_state = 'DELIVERED', fact_sent, 0), 'UTC') COMMENT 'When the last attempt that delivered was sent; 1970 for none' CODEC(ZSTD(1)),
    failed_at    SimpleAggregateFunction(max, DateTime64(3, 'UTC')) DEFAULT fromUnixTimestamp64Milli(if(fact_state != 'DELIVERED', fact_sent, 0), 'UTC') COMMENT 'When the last other attempt was sent; 1970 for none' CODEC(ZSTD(1)),
    topic        String                                ALIAS 'journal' COMMENT 'Topic of the facts, without the deployment''s prefix',
    partition    SimpleAggregateFunction(max, Int32)   COMMENT 'Partition of the facts' CODEC(ZSTD(1)),
    offset       SimpleAggregateFunction(max, Int64)   COMMENT 'Offset of the last fact' CODEC(ZSTD(1)),
    fact_version UInt64                                EPHEMERAL 0 COMMENT 'For writing only: version of the endpoint that the attempt made',
    fact_state   LowCardinality(String)                EPHEMERAL '' COMMENT 'For writing only: state of the delivery after the attempt',
    fact_sent    Int64                                 EPHEMERAL 0 COMMENT 'For writing only: when the attempt was sent, Unix milliseconds'
)
ENGINE = AggregatingMergeTree
ORDER BY (endpoint_id, seconds, at)
SETTINGS index_granularity = 1024
COMMENT 'Attempts of each endpoint by spans of time. Holds several rows for a span until parts are merged: GROUP BY endpoint_id, seconds, at';

-- Where each delivery stands: an event on its way to an endpoint. Each fact of a
-- delivery writes a row that says what it knows, and the rows of a delivery
-- collapse column by column: what only its creation tells is kept, counts only
-- grow, and the highest version decides the state. All of it is a maximum or a
-- union, so it does not matter how often or in which order the rows come. An
-- event has another delivery once it is handed over to another endpoint.
--
-- standing packs the version, the state and the time of the next attempt into
-- one number, whose maximum is that of the latest fact; read state and
-- next_attempt_at, which take it apart.
--
-- A page of a list asks for fifty deliveries that lie far apart: the smaller granules
-- and blocks are, the less of others is unpacked with them, and the more they cost to
-- write and to merge. With 128 rows and 16 KiB a page takes as long as with 64 and 4 KiB,
-- which cost more of both; with 512 and 64 KiB it took six times that.
--
-- There is no PARTITION BY: the facts of one delivery may lie months apart, and
-- rows in two partitions are never merged.
CREATE TABLE IF NOT EXISTS {database:Identifier}.deliveries
(
    event_id        String                                         COMMENT 'Identifier of the event (evt_…)' CODEC(ZSTD(1)),
    account_id      SimpleAggregateFunction(max, String)           COMMENT 'Account that the event belongs to (acc_…)' CODEC(ZSTD(1)),
    endpoint_id     String                                         COMMENT 'Endpoint that the event is delivered to (ep_…)' CODEC(ZSTD(1)),
    sequence        SimpleAggregateFunction(max, UInt64)           COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it' CODEC(ZSTD(1)),
    moves           SimpleAggregateFunction(max, UInt32)           COMMENT 'How often the event was handed over to another endpoint before this delivery; the highest is the present one' CODEC(ZSTD(1)),
    moved_to        SimpleAggregateFunction(max, String)           COMMENT 'Endpoint that the event was handed over to; empty for none (ep_…)' CODEC(ZSTD(1)),
    created_at      SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the event was made; createdAt of the envelope' CODEC(ZSTD(1)),
    updated_at      SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last fact of the delivery was written' CODEC(ZSTD(1)),
    attempts        SimpleAggregateFunction(max, UInt32)           COMMENT 'Attempts made over all runs' CODEC(ZSTD(1)),
    run             SimpleAggregateFunction(max, UInt32)           COMMENT 'Run of the delivery, 1 is the first; a requeued delivery begins another' CODEC(ZSTD(1)),
    ended_run       SimpleAggregateFunction(max, UInt32)           DEFAULT multiIf(bitAnd(bitShiftRight(standing, 48), 7) IN (3, 4), run, bitAnd(bitShiftRight(standing, 48), 7) = 5, 4294967295, 0) COMMENT 'The last run that has ended; 4294967295 once it is CANCELLED. A delivery is pending while run is greater' CODEC(ZSTD(1)),
    attempt_times   SimpleAggregateFunction(groupUniqArrayArray, Array(DateTime64(3, 'UTC'))) DEFAULT arrayMap(at -> fromUnixTimestamp64Milli(at, 'UTC'), arrayFilter(at -> at != 0, [fact_sent])) COMMENT 'When each attempt was sent, in no order: where they are in attempts' CODEC(ZSTD(1)),
    version         SimpleAggregateFunction(max, UInt64)           COMMENT 'Version of the endpoint that the last fact of the delivery made' CODEC(ZSTD(1)),
    standing        SimpleAggregateFunction(max, UInt128)          DEFAULT bitShiftLeft(toUInt128(version), 64) + bitShiftLeft(toUInt128(indexOf(['QUEUED', 'WAITING', 'DELIVERED', 'FAILED', 'CANCELLED'], fact_state)), 48) + toUInt128(fact_due) COMMENT 'Version, state and time of the next attempt, packed: read state and next_attempt_at' CODEC(ZSTD(1)),
    state           String                                         ALIAS ['QUEUED', 'WAITING', 'DELIVERED', 'FAILED', 'CANCELLED'][toUInt8(bitAnd(bitShiftRight(standing, 48), 7))] COMMENT 'QUEUED, WAITING, DELIVERED, FAILED or CANCELLED',
    next_attempt_at Nullable(DateTime64(3, 'UTC'))                 ALIAS nullIf(fromUnixTimestamp64Milli(toInt64(bitAnd(standing, 281474976710655)), 'UTC'), toDateTime64(0, 3, 'UTC')) COMMENT 'When the next attempt is due by the schedule; NULL when none is. The view current_deliveries also counts the enabling of an endpoint',
    topic           String                                         ALIAS 'journal' COMMENT 'Topic of the facts, without the deployment''s prefix',
    partition       SimpleAggregateFunction(max, Int32)            COMMENT 'Partition of the facts' CODEC(ZSTD(1)),
    offset          SimpleAggregateFunction(max, Int64)            COMMENT 'Offset of the last fact' CODEC(ZSTD(1)),
    fact_sent       Int64                                          EPHEMERAL 0 COMMENT 'For writing only: when the fact''s attempt was sent, Unix milliseconds; 0 for none',
    fact_state      LowCardinality(String)                         EPHEMERAL '' COMMENT 'For writing only: the state that a fact brings',
    fact_due        Int64                                          EPHEMERAL 0 COMMENT 'For writing only: when the next attempt is due, Unix milliseconds; 0 for none'
)
ENGINE = AggregatingMergeTree
ORDER BY (event_id, endpoint_id)
SETTINGS index_granularity = 128, min_compress_block_size = 16384, max_compress_block_size = 65536
COMMENT 'Current state of each delivery. Holds a row for each fact until parts are merged: read with FINAL, or the view current_deliveries';

-- Time travel of deliveries: their facts that no other table tells. The creation of a delivery is
-- its row of events, an attempt that of attempts, so a delivery that succeeds has no row here.
CREATE TABLE IF NOT EXISTS {database:Identifier}.delivery_facts
(
    event_id    String                 COMMENT 'Identifier of the event (evt_…)' CODEC(ZSTD(1)),
    endpoint_id String                 COMMENT 'Endpoint that the delivery is to (ep_…)' CODEC(ZSTD(1)),
    version     UInt64                 COMMENT 'Version of the endpoint that the fact made' CODEC(Delta, ZSTD(1)),
    fact        LowCardinality(String) COMMENT 'DeliveryRequeued, DeliveryCancelled, DeliveryMoved, DeliveryRecalled, or DeliveryCreated of an event that was handed over',
    form        LowCardinality(String) COMMENT 'Schema version of the value',
    happened_at DateTime64(3, 'UTC')   COMMENT 'When it happened' CODEC(Delta, ZSTD(1)),
    value       String                 COMMENT 'The fact, as the Protobuf message that it names, without the body of the event' CODEC(ZSTD(1)),
    topic       LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset      Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (event_id, endpoint_id, version)
SETTINGS index_granularity = 256
COMMENT 'Facts of deliveries beside their creation and their attempts: queued again, cancelled, handed over, recalled. May hold copies of a row until parts are merged: read with FINAL';

-- Time travel: what an endpoint or a watch was after any fact of its own. A fold of an
-- aggregate's rows, in the order of their versions, is its state. Without the first of them no
-- later one can be read, so rows of this table do not expire; they are few, for deliveries make none.
CREATE TABLE IF NOT EXISTS {database:Identifier}.facts
(
    aggregate_id String                 COMMENT 'Endpoint (ep_…) or watch (wat_…) that the fact is of' CODEC(ZSTD(1)),
    version      UInt64                 COMMENT 'Version that the fact made; an endpoint''s deliveries count its version up too' CODEC(Delta, ZSTD(1)),
    fact         LowCardinality(String) COMMENT 'Name of the fact, such as WatchUpdated',
    form         LowCardinality(String) COMMENT 'Schema version of the value',
    happened_at  DateTime64(3, 'UTC')   COMMENT 'When it happened' CODEC(Delta, ZSTD(1)),
    value        String                 COMMENT 'The fact, as the Protobuf message that it names, without secrets and the values of headers' CODEC(ZSTD(1)),
    topic        LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition    Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset       Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (aggregate_id, version)
SETTINGS index_granularity = 256
COMMENT 'Facts of endpoints and watches themselves, one row for each. May hold copies of a row until parts are merged: read with FINAL';

-- What happened to endpoints themselves: created, updated, disabled and why,
-- enabled, deleted, secrets rotated. Enabling one makes its waiting deliveries
-- due without a fact for each: that is read from here.
CREATE TABLE IF NOT EXISTS {database:Identifier}.endpoint_changes
(
    endpoint_id String                 COMMENT 'Endpoint (ep_…)' CODEC(ZSTD(1)),
    version     UInt64                 COMMENT 'Version of the endpoint that the fact made; its deliveries count it up too' CODEC(Delta, ZSTD(1)),
    change      LowCardinality(String) COMMENT 'created, updated, disabled, enabled, deleted or secret_rotated',
    reason      LowCardinality(String) COMMENT 'Why it was disabled: gone, consecutive_failures or manual; else empty',
    changed_at  DateTime64(3, 'UTC')   COMMENT 'When it happened' CODEC(Delta, ZSTD(1)),
    topic       LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset      Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (endpoint_id, version)
COMMENT 'History of each endpoint, one row for each change. May hold copies of a row until parts are merged: read with FINAL';

-- Endpoints as they are now, from the compacted table topic of the same name:
-- the last record of an endpoint counts. Secrets are not here.
CREATE TABLE IF NOT EXISTS {database:Identifier}.endpoints
(
    endpoint_id          String                 COMMENT 'Identifier of the endpoint (ep_…); the API calls it id' CODEC(ZSTD(1)),
    account_id           String                 COMMENT 'Account that it belongs to (acc_…)' CODEC(ZSTD(1)),
    url                  String                 COMMENT 'Where events are posted to' CODEC(ZSTD(1)),
    description          String                 COMMENT 'Free text of its owner' CODEC(ZSTD(1)),
    status               LowCardinality(String) COMMENT 'active, disabled or deleted',
    rate_limit_per_second UInt32                COMMENT 'Most attempts a second that its owner allows; 0 for no limit',
    signatures            Array(LowCardinality(String)) COMMENT 'Signatures of its deliveries besides the usual one: standard-webhooks, standard-webhooks-ed25519',
    ordering              LowCardinality(String)        COMMENT 'wallet: the events of a wallet are sent one after another; empty: they wait for none',
    disabled_reason      LowCardinality(String) COMMENT 'gone, consecutive_failures or manual; empty while it is active',
    disabled_at          Nullable(DateTime64(3, 'UTC')) COMMENT 'When it was disabled; NULL while it is active',
    consecutive_failures UInt32                 COMMENT 'Runs that ended FAILED in a row, as of this row; the view endpoints_near_disabling counts the facts since',
    created_at           DateTime64(3, 'UTC')   COMMENT 'When it was created',
    updated_at           DateTime64(3, 'UTC')   COMMENT 'When it was last changed',
    deleted              Bool                   COMMENT 'Whether it was deleted',
    version              UInt64                 COMMENT 'Version of the endpoint; counts its facts',
    topic                LowCardinality(String) DEFAULT 'endpoints' COMMENT 'Topic of the row, without the deployment''s prefix',
    partition            Int32                  COMMENT 'Partition of the row',
    offset               UInt64                 COMMENT 'Offset of the row; the highest counts'
)
ENGINE = ReplacingMergeTree(offset)
ORDER BY endpoint_id
COMMENT 'Endpoints as they are now. Holds older rows until parts are merged: read with FINAL';

-- Watches as they are now, from the compacted table topic of the same name: the
-- last record of a watch counts.
CREATE TABLE IF NOT EXISTS {database:Identifier}.watches
(
    watch_id         String                        COMMENT 'Identifier of the watch (wat_…); the API calls it id' CODEC(ZSTD(1)),
    account_id       String                        COMMENT 'Account that it belongs to (acc_…)' CODEC(ZSTD(1)),
    endpoint_id      String                        COMMENT 'Endpoint that is notified (ep_…)' CODEC(ZSTD(1)),
    wallet_address   String                        COMMENT 'Wallet that is watched (G…)' CODEC(ZSTD(1)),
    label            String                        COMMENT 'Free text of its owner' CODEC(ZSTD(1)),
    assets           Array(String)                 COMMENT 'Assets that are accepted: XLM, or CODE:ISSUER',
    amount_kind      LowCardinality(String)        COMMENT 'Kind of the amount rule: any, exact, min, max or range',
    memo_kind        LowCardinality(String)        COMMENT 'Kind of the memo rule: any, present, absent or equals',
    sender_allowlist Array(String)                 COMMENT 'Addresses that may pay; empty when anyone may',
    event_types      Array(LowCardinality(String)) COMMENT 'Types of event that are told',
    created_at       DateTime64(3, 'UTC')          COMMENT 'When it was created',
    updated_at       DateTime64(3, 'UTC')          COMMENT 'When it was last changed',
    deleted          Bool                          COMMENT 'Whether it was deleted',
    version          UInt64                        COMMENT 'Version of the watch; counts its facts',
    topic            LowCardinality(String)        DEFAULT 'watches' COMMENT 'Topic of the row, without the deployment''s prefix',
    partition        Int32                         COMMENT 'Partition of the row',
    offset           UInt64                        COMMENT 'Offset of the row; the highest counts'
)
ENGINE = ReplacingMergeTree(offset)
ORDER BY watch_id
COMMENT 'Watches as they are now. Holds older rows until parts are merged: read with FINAL';

-- How far the topics are in each table. A row is written after the data that it
-- covers, and stays true whoever wrote it, so the highest counts. It is about a
-- generation of a table, and that is the table's own UUID: one that was dropped
-- and made anew, or filled beside the live one, is another, and a table that is
-- exchanged takes its progress along.
CREATE TABLE IF NOT EXISTS {database:Identifier}.projection_progress
(
    generation  UUID                   COMMENT 'UUID of the table that is filled, as in system.tables',
    table_name  LowCardinality(String) COMMENT 'Name that the table had when the row was written',
    topic       LowCardinality(String) COMMENT 'Topic, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the topic',
    next_offset Int64                  COMMENT 'Every committed record below this offset is in the table',
    written_at  DateTime64(3, 'UTC')   DEFAULT now64(3) COMMENT 'When the row was written'
)
ENGINE = ReplacingMergeTree(next_offset)
ORDER BY (generation, topic, partition)
COMMENT 'How far each partition is projected. Read max(next_offset) by generation, topic and partition';
