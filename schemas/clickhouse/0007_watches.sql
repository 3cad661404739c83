-- Watches as they are now, from the compacted table topic of the same name: the
-- last record of a watch counts.
CREATE TABLE IF NOT EXISTS {database:Identifier}.watches
(
    watch_id         String                        COMMENT 'Identifier of the watch (wat_…); the API calls it id' CODEC(ZSTD(1)),
    account_id       String                        COMMENT 'Account that it belongs to (acc_…)' CODEC(ZSTD(1)),
    endpoint_id      String                        COMMENT 'Endpoint that is told (ep_…)' CODEC(ZSTD(1)),
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
