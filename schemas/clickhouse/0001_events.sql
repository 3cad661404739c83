-- What receivers are told: one row for each event, written when its delivery is
-- created and never changed. Copies of a row come from the same fact, so they
-- are alike in every column and collapse by the event's id.
--
-- A granule holds 256 rows, not 8192: a body is about 900 bytes, and reading one
-- event should not decompress megabytes.
CREATE TABLE IF NOT EXISTS {database:Identifier}.events
(
    event_id       String                 COMMENT 'Identifier of the event (evt_…); the API calls it id' CODEC(ZSTD(1)),
    type           LowCardinality(String) COMMENT 'Type of the event, such as payment.received',
    account_id     String                 COMMENT 'Account that the event belongs to (acc_…)' CODEC(ZSTD(1)),
    endpoint_id    String                 COMMENT 'Endpoint that the event is delivered to (ep_…)' CODEC(ZSTD(1)),
    watch_id       String                 COMMENT 'Watch that matched (wat_…); empty for test.ping' CODEC(ZSTD(1)),
    wallet_address String                 COMMENT 'Watched wallet (G…); empty for test.ping' CODEC(ZSTD(1)),
    created_at     DateTime64(3, 'UTC')   COMMENT 'When the event was made; createdAt of the envelope' CODEC(ZSTD(1)),
    body           String                 COMMENT 'The envelope as JSON, byte for byte as it is sent' CODEC(ZSTD(3)),
    version        UInt64                 COMMENT 'Version of the endpoint that the fact made; counts the endpoint''s facts',
    topic          LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition      Int32                  COMMENT 'Partition of the fact',
    offset         Int64                  COMMENT 'Offset of the fact'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(created_at)
ORDER BY event_id
SETTINGS index_granularity = 256
COMMENT 'Events, one row each. May hold copies of a row until parts are merged: read with FINAL, or LIMIT 1 BY event_id';
