-- Receipts: what of an attempt's record was not kept, and the hashes of the logs of attempts.
ALTER TABLE {database:Identifier}.attempts
ADD COLUMN IF NOT EXISTS log_from UInt64 COMMENT 'Log that the attempt is a leaf of: the version that its first leaf made; 0 in rows of versions that had no logs' CODEC(Delta, ZSTD(1)) AFTER next_attempt_at,
ADD COLUMN IF NOT EXISTS leaf UInt64 COMMENT 'Number of the leaf in the log; 1 is the first' CODEC(Delta, ZSTD(1)) AFTER log_from,
ADD COLUMN IF NOT EXISTS body_sha256 String COMMENT 'SHA-256 of the request''s body, 32 bytes: hex() shows it' CODEC(ZSTD(1)) AFTER leaf,
ADD COLUMN IF NOT EXISTS signature_sha256 String COMMENT 'SHA-256 of the value of Webhook-Signature, 32 bytes: hex() shows it' CODEC(ZSTD(1)) AFTER body_sha256;

-- The hashes of the logs. They outlive what they are of: without those of old leaves no new leaf
-- can be proved, so rows of this table do not expire. A proof reads a few rows by their numbers.
CREATE TABLE IF NOT EXISTS {database:Identifier}.attempt_log
(
    endpoint_id String                 COMMENT 'Endpoint whose attempts are the leaves (ep_…)' CODEC(ZSTD(1)),
    log_from    UInt64                 COMMENT 'Version of the endpoint that the first leaf made; names the log' CODEC(Delta, ZSTD(1)),
    leaf        UInt64                 COMMENT 'Number of the leaf; 1 is the first' CODEC(Delta, ZSTD(1)),
    hashes      String                 COMMENT 'Hashes of the leaf and of each subtree of the Merkle tree that it completes, the smallest first, 32 bytes each' CODEC(NONE),
    sent_at     DateTime64(3, 'UTC')   COMMENT 'When the request was sent' CODEC(Delta, ZSTD(1)),
    version     UInt64                 COMMENT 'Version of the endpoint that the fact made' CODEC(Delta, ZSTD(1)),
    topic       LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset      Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (endpoint_id, log_from, leaf)
SETTINGS index_granularity = 256
COMMENT 'Transparency logs of attempts, a leaf each, one log for each endpoint. May hold copies of a row until parts are merged';
