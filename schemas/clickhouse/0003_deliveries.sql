-- Where each delivery stands: the row with the highest version of an event.
-- Each fact of a delivery writes a row of its own, and they collapse by event.
--
-- There is no PARTITION BY: the facts of one delivery may lie months apart and
-- say nothing of its beginning, and rows in two partitions are never merged.
-- What the facts do not repeat (account, watch, type, creation) is in events.
CREATE TABLE IF NOT EXISTS {database:Identifier}.deliveries
(
    event_id        String                 COMMENT 'Identifier of the event (evt_…)' CODEC(ZSTD(1)),
    endpoint_id     String                 COMMENT 'Endpoint that the event is delivered to (ep_…)' CODEC(ZSTD(1)),
    state           LowCardinality(String) COMMENT 'QUEUED, WAITING, DELIVERED, FAILED or CANCELLED',
    attempts        Nullable(UInt32)       COMMENT 'Attempts made over all runs; NULL when CANCELLED: count the rows of attempts then',
    run             Nullable(UInt32)       COMMENT 'Run of the delivery, 1 is the first; NULL when CANCELLED',
    next_attempt_at Nullable(DateTime64(3, 'UTC')) COMMENT 'When the next attempt is due; NULL when none is' CODEC(ZSTD(1)),
    updated_at      DateTime64(3, 'UTC')   COMMENT 'When the delivery came to this state' CODEC(ZSTD(1)),
    version         UInt64                 COMMENT 'Version of the endpoint that the fact made; the highest of an event is its current state',
    topic           LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition       Int32                  COMMENT 'Partition of the fact',
    offset          Int64                  COMMENT 'Offset of the fact'
)
ENGINE = ReplacingMergeTree(version)
ORDER BY event_id
SETTINGS index_granularity = 1024
COMMENT 'Current state of each delivery. Holds older states until parts are merged: read with FINAL, or ORDER BY version DESC LIMIT 1 BY event_id';
