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
