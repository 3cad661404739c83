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
