CREATE DATABASE IF NOT EXISTS history ON CLUSTER `shop-1`;
CREATE TABLE IF NOT EXISTS history.schema_versions ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
ORDER BY version
COMMENT 'Migrations that were applied to this database';
CREATE TABLE IF NOT EXISTS history.payments ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(ledger_closed_at)
ORDER BY (to_address, ledger_closed_at, payment_id)
COMMENT 'Payments to watched wallets, one row each. May hold copies of a row until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.events ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, created_at, event_id, endpoint_id)
SETTINGS index_granularity = 256, min_compress_block_size = 4096, max_compress_block_size = 16384
COMMENT 'Events, one row for each endpoint that they were sent to: WHERE moves = 0 gives each once. May hold copies of a row until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.events_rebuild ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
PARTITION BY toYYYYMM(created_at)
ORDER BY (account_id, created_at, event_id, endpoint_id)
SETTINGS index_granularity = 256, min_compress_block_size = 4096, max_compress_block_size = 16384
COMMENT 'Events, one row for each endpoint that they were sent to: WHERE moves = 0 gives each once. May hold copies of a row until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.attempts ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
PARTITION BY toYYYYMM(sent_at)
ORDER BY (endpoint_id, sent_at, event_id, number)
SETTINGS index_granularity = 256, min_compress_block_size = 16384, max_compress_block_size = 65536
COMMENT 'Delivery attempts, one row each. May hold copies of a row until parts are merged: read with FINAL, or LIMIT 1 BY event_id, number';
CREATE TABLE IF NOT EXISTS history.deliveries ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedAggregatingMergeTree
ORDER BY (event_id, endpoint_id)
SETTINGS index_granularity = 128, min_compress_block_size = 16384, max_compress_block_size = 65536
COMMENT 'Current state of each delivery. Holds a row for each fact until parts are merged: read with FINAL, or the view current_deliveries';
CREATE TABLE IF NOT EXISTS history.deliveries UUID '00000000-0000-4000-8000-000000000001' ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedAggregatingMergeTree
ORDER BY (event_id, endpoint_id)
SETTINGS index_granularity = 128, min_compress_block_size = 16384, max_compress_block_size = 65536
COMMENT 'Current state of each delivery. Holds a row for each fact until parts are merged: read with FINAL, or the view current_deliveries';
CREATE TABLE IF NOT EXISTS history.endpoint_changes ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
ORDER BY (endpoint_id, version)
COMMENT 'History of each endpoint, one row for each change. May hold copies of a row until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.endpoints ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree(offset)
ORDER BY endpoint_id
COMMENT 'Endpoints as they are now. Holds older rows until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.watches ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree(offset)
ORDER BY watch_id
COMMENT 'Watches as they are now. Holds older rows until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.projection_progress ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree(next_offset)
ORDER BY (generation, topic, partition)
COMMENT 'How far each partition is projected. Read max(next_offset) by generation, topic and partition';
CREATE OR REPLACE VIEW history.current_deliveries ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.attempt_outcomes ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.attempts_per_minute ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.endpoint_health ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.error_mix ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.retry_ladder ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.first_delivery_times ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.endpoints_near_disabling ON CLUSTER `shop-1` AS …;
CREATE OR REPLACE VIEW history.payments_per_watch ON CLUSTER `shop-1` AS …;
ALTER TABLE history.deliveries ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS moved_to SimpleAggregateFunction(max, String) COMMENT 'Endpoint that the event was handed over to; empty for none (ep_…)' CODEC(ZSTD(1)) AFTER moves;
ALTER TABLE history.events ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS sequence UInt64 COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it; 0 in rows of versions that gave none' CODEC(Delta, ZSTD(1)) AFTER ledger_closed_at;
ALTER TABLE history.deliveries ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS sequence SimpleAggregateFunction(max, UInt64) COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it; 0 in rows of versions that gave none' CODEC(ZSTD(1)) AFTER endpoint_id;
ALTER TABLE history.events_rebuild ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS sequence UInt64 COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it; 0 in rows of versions that gave none' CODEC(Delta, ZSTD(1)) AFTER ledger_closed_at;
CREATE TABLE IF NOT EXISTS history.balance_moves ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(ledger_closed_at)
ORDER BY (wallet_address, ledger_closed_at, move_id)
COMMENT 'Changes of the balances of watched wallets, one row each. May hold copies of a row until parts are merged: read with FINAL';
CREATE OR REPLACE VIEW history.unexplained_moves ON CLUSTER `shop-1` AS …;
ALTER TABLE history.endpoints ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS signatures Array(LowCardinality(String)) COMMENT 'Signatures of its deliveries besides the usual one: standard-webhooks, standard-webhooks-ed25519' AFTER rate_limit_per_second;
ALTER TABLE history.events ON CLUSTER `shop-1`
ADD INDEX IF NOT EXISTS by_sequence sequence TYPE minmax GRANULARITY 1;
ALTER TABLE history.events ON CLUSTER `shop-1`
MATERIALIZE INDEX by_sequence;
CREATE OR REPLACE VIEW history.current_deliveries ON CLUSTER `shop-1` AS …;
ALTER TABLE history.events_rebuild ON CLUSTER `shop-1`
ADD INDEX IF NOT EXISTS by_sequence sequence TYPE minmax GRANULARITY 1;
ALTER TABLE history.events_rebuild ON CLUSTER `shop-1`
MATERIALIZE INDEX by_sequence;
ALTER TABLE history.events ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS tx_hash String DEFAULT visitParamExtractString(body, 'txHash') COMMENT 'Hash of the payment''s transaction, 64 hex digits; empty for test.ping' CODEC(ZSTD(1)) AFTER payment_id,
ADD COLUMN IF NOT EXISTS from_address String DEFAULT visitParamExtractString(body, 'from') COMMENT 'Sender of the payment (G… or C…); empty for test.ping' CODEC(ZSTD(1)) AFTER tx_hash,
ADD COLUMN IF NOT EXISTS memo String DEFAULT visitParamExtractString(body, 'memo') COMMENT 'Memo of the payment as the event shows it; empty when there is none' CODEC(ZSTD(1)) AFTER from_address,
ADD INDEX IF NOT EXISTS by_payment payment_id TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_transaction tx_hash TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_sender from_address TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_memo memo TYPE bloom_filter(0.01) GRANULARITY 16;
ALTER TABLE history.events_rebuild ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS tx_hash String DEFAULT visitParamExtractString(body, 'txHash') COMMENT 'Hash of the payment''s transaction, 64 hex digits; empty for test.ping' CODEC(ZSTD(1)) AFTER payment_id,
ADD COLUMN IF NOT EXISTS from_address String DEFAULT visitParamExtractString(body, 'from') COMMENT 'Sender of the payment (G… or C…); empty for test.ping' CODEC(ZSTD(1)) AFTER tx_hash,
ADD COLUMN IF NOT EXISTS memo String DEFAULT visitParamExtractString(body, 'memo') COMMENT 'Memo of the payment as the event shows it; empty when there is none' CODEC(ZSTD(1)) AFTER from_address,
ADD INDEX IF NOT EXISTS by_payment payment_id TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_transaction tx_hash TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_sender from_address TYPE bloom_filter(0.01) GRANULARITY 16,
ADD INDEX IF NOT EXISTS by_memo memo TYPE bloom_filter(0.01) GRANULARITY 16;
ALTER TABLE history.endpoints ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS ordering LowCardinality(String) COMMENT 'wallet: the events of a wallet are sent one after another; empty: they wait for none' AFTER signatures;
ALTER TABLE history.attempts ON CLUSTER `shop-1`
ADD COLUMN IF NOT EXISTS log_from UInt64 COMMENT 'Log that the attempt is a leaf of: the version that its first leaf made; 0 in rows of versions that had no logs' CODEC(Delta, ZSTD(1)) AFTER next_attempt_at,
ADD COLUMN IF NOT EXISTS leaf UInt64 COMMENT 'Number of the leaf in the log; 1 is the first' CODEC(Delta, ZSTD(1)) AFTER log_from,
ADD COLUMN IF NOT EXISTS body_sha256 String COMMENT 'SHA-256 of the request''s body, 32 bytes: hex() shows it' CODEC(ZSTD(1)) AFTER leaf,
ADD COLUMN IF NOT EXISTS signature_sha256 String COMMENT 'SHA-256 of the value of Webhook-Signature, 32 bytes: hex() shows it' CODEC(ZSTD(1)) AFTER body_sha256;
CREATE TABLE IF NOT EXISTS history.attempt_log ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
ORDER BY (endpoint_id, log_from, leaf)
SETTINGS index_granularity = 256
COMMENT 'Transparency logs of attempts, a leaf each, one log for each endpoint. May hold copies of a row until parts are merged';
CREATE TABLE IF NOT EXISTS history.facts ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
ORDER BY (aggregate_id, version)
SETTINGS index_granularity = 256
COMMENT 'Facts of endpoints and watches themselves, one row for each. May hold copies of a row until parts are merged: read with FINAL';
CREATE TABLE IF NOT EXISTS history.delivery_facts ON CLUSTER `shop-1` (…)
ENGINE = ReplicatedReplacingMergeTree
ORDER BY (event_id, endpoint_id, version)
SETTINGS index_granularity = 256
COMMENT 'Facts of deliveries beside their creation and their attempts: queued again, cancelled, handed over, recalled. May hold copies of a row until parts are merged: read with FINAL';
ALTER TABLE history.events ON CLUSTER `shop-1` MODIFY SETTING min_parts_to_merge_at_once = 50;
ALTER TABLE history.events ON CLUSTER `shop-1` RESET SETTING min_parts_to_merge_at_once;
ALTER TABLE history.events ON CLUSTER `shop-1` MODIFY TTL toDateTime(created_at) + toIntervalSecond(7776000);
ALTER TABLE history.events ON CLUSTER `shop-1` REMOVE TTL;
RENAME TABLE history.events_rebuild TO history.events_exchange ON CLUSTER `shop-1`;
EXCHANGE TABLES history.events AND history.events_exchange ON CLUSTER `shop-1`;
DROP TABLE IF EXISTS history.events ON CLUSTER `shop-1` SYNC SETTINGS max_table_size_to_drop = 0;
