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
