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
    first_wins       UInt64                 MATERIALIZED 18446744073709551615 - toUInt64(offset) COMMENT 'Falls as the offset rises, so that the first record of a payment is kept' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(ledger_closed_at)
ORDER BY (to_address, ledger_closed_at, payment_id)
COMMENT 'Payments to watched wallets, one row each. May hold copies of a row until parts are merged: read with FINAL';
