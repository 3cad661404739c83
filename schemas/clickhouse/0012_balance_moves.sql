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

CREATE OR REPLACE VIEW {database:Identifier}.unexplained_moves
AS SELECT wallet_address, balance, ledger, ledger_closed_at, tx_hash, move_id, last_after_stroops, before_stroops, before_stroops - last_after_stroops AS unexplained_stroops
FROM (
    SELECT wallet_address, balance, ledger, ledger_closed_at, tx_hash, move_id, before_stroops,
        lagInFrame(after_stroops, 1, before_stroops) OVER (PARTITION BY wallet_address, balance ORDER BY ledger, place ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS last_after_stroops
    FROM {database:Identifier}.balance_moves FINAL
)
WHERE before_stroops != last_after_stroops
COMMENT 'Moves that do not begin where the last move of the same balance ended: a ledger was missed, a source was wrong, or the wallet was not watched in between. None is expected';
