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
    payment_id       String                 DEFAULT extract(body, '"payment":\\{"id":"([^"]*)"') COMMENT 'Payment that the event tells of; empty for test.ping' CODEC(ZSTD(1)),
    asset_code       LowCardinality(String) DEFAULT visitParamExtractString(body, 'code') COMMENT 'Code of the asset that was paid; empty for test.ping',
    asset_issuer     LowCardinality(String) DEFAULT visitParamExtractString(body, 'issuer') COMMENT 'Issuer of that asset; empty for the native asset',
    amount_stroops   Int64                  DEFAULT toInt64OrZero(visitParamExtractString(body, 'amountStroops')) COMMENT 'Amount that was paid, in stroops; 0 for test.ping' CODEC(ZSTD(1)),
    amount           Decimal(38, 7)         ALIAS CAST(amount_stroops, 'Decimal(38, 7)') / 10000000 COMMENT 'Amount that was paid, in units',
    ledger_closed_at Nullable(DateTime('UTC')) DEFAULT parseDateTimeBestEffortOrNull(visitParamExtractString(body, 'ledgerClosedAt'), 'UTC') COMMENT 'When the payment''s ledger was closed; NULL for test.ping' CODEC(ZSTD(1)),
    moves            UInt32                 COMMENT 'How often the event was handed over to another endpoint before this row; the row of 0 is an event''s first' CODEC(ZSTD(1)),
    version          UInt64                 COMMENT 'Version of the endpoint that the fact made; counts the endpoint''s facts' CODEC(Delta, ZSTD(1)),
    topic            LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition        Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset           Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1)),
    INDEX by_endpoint endpoint_id TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_watch watch_id TYPE bloom_filter(0.01) GRANULARITY 16,
    INDEX by_wallet wallet_address TYPE bloom_filter(0.01) GRANULARITY 16
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, created_at, event_id, endpoint_id)
SETTINGS index_granularity = 256, min_compress_block_size = 4096, max_compress_block_size = 16384
COMMENT 'Events, one row for each endpoint that they were sent to: WHERE moves = 0 gives each once. May hold copies of a row until parts are merged: read with FINAL';
