-- What lists of events are filtered by, beside what was there: people look for an event with
-- what they know of its payment. Rows of before have it from the body, which is read where the
-- table is searched for it; `lumenhook rebuild --table events` writes it to them. The indexes are
-- of rows that are written from now on.
ALTER TABLE {database:Identifier}.events
ADD COLUMN IF NOT EXISTS tx_hash String DEFAULT visitParamExtractString(body, 'txHash') COMMENT 'Hash of the payment''s transaction, 64 hex digits; empty for test.ping' CODEC(ZSTD(1)) AFTER payment_id,
ADD COLUMN IF NOT EXISTS from_address String DEFAULT visitParamExtractString(body, 'from') COMMENT 'Sender of the payment (G… or C…); empty for test.ping' CODEC(ZSTD(1)) AFTER tx_hash,
ADD COLUMN IF NOT EXISTS memo String DEFAULT visitParamExtractString(body, 'memo') COMMENT 'Memo of the payment as the event shows it; empty when there is none' CODEC(ZSTD(1)) AFTER from_address,
ADD INDEX IF NOT EXISTS by_payment payment_id TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_transaction tx_hash TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_sender from_address TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_memo memo TYPE bloom_filter(0.01) GRANULARITY 16;
