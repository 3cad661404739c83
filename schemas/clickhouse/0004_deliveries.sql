-- Where each delivery stands: an event on its way to an endpoint. Each fact of a
-- delivery writes a row that says what it knows, and the rows of a delivery
-- collapse column by column: what only its creation tells is kept, counts only
-- grow, and the highest version decides the state. All of it is a maximum or a
-- union, so it does not matter how often or in which order the rows come. An
-- event has another delivery once it is handed over to another endpoint.
--
-- standing packs the version, the state and the time of the next attempt into
-- one number, whose maximum is that of the latest fact; read state and
-- next_attempt_at, which take it apart.
--
-- A page of a list asks for fifty deliveries that lie far apart: the smaller granules
-- and blocks are, the less of others is unpacked with them, and the more they cost to
-- write and to merge. With 128 rows and 16 KiB a page takes as long as with 64 and 4 KiB,
-- which cost more of both; with 512 and 64 KiB it took six times that. A table of an
-- earlier version keeps what it has until it is rebuilt.
--
-- There is no PARTITION BY: the facts of one delivery may lie months apart, and
-- rows in two partitions are never merged.
CREATE TABLE IF NOT EXISTS {database:Identifier}.deliveries
(
    event_id        String                                         COMMENT 'Identifier of the event (evt_…)' CODEC(ZSTD(1)),
    account_id      SimpleAggregateFunction(max, String)           COMMENT 'Account that the event belongs to (acc_…)' CODEC(ZSTD(1)),
    endpoint_id     String                                         COMMENT 'Endpoint that the event is delivered to (ep_…)' CODEC(ZSTD(1)),
    moves           SimpleAggregateFunction(max, UInt32)           COMMENT 'How often the event was handed over to another endpoint before this delivery; the highest is the present one' CODEC(ZSTD(1)),
    created_at      SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the event was made; createdAt of the envelope' CODEC(ZSTD(1)),
    updated_at      SimpleAggregateFunction(max, DateTime64(3, 'UTC')) COMMENT 'When the last fact of the delivery was written' CODEC(ZSTD(1)),
    attempts        SimpleAggregateFunction(max, UInt32)           COMMENT 'Attempts made over all runs' CODEC(ZSTD(1)),
    run             SimpleAggregateFunction(max, UInt32)           COMMENT 'Run of the delivery, 1 is the first; a requeued delivery begins another' CODEC(ZSTD(1)),
    fact_sent       Int64                                          EPHEMERAL 0 COMMENT 'For writing only: when the attempt that a fact tells of was sent, Unix milliseconds; 0 for none',
    attempt_times   SimpleAggregateFunction(groupUniqArrayArray, Array(DateTime64(3, 'UTC'))) DEFAULT arrayMap(at -> fromUnixTimestamp64Milli(at, 'UTC'), arrayFilter(at -> at != 0, [fact_sent])) COMMENT 'When each attempt was sent, in no order: where they are in attempts' CODEC(ZSTD(1)),
    version         SimpleAggregateFunction(max, UInt64)           COMMENT 'Version of the endpoint that the last fact of the delivery made' CODEC(ZSTD(1)),
    fact_state      LowCardinality(String)                         EPHEMERAL '' COMMENT 'For writing only: the state that a fact brings',
    fact_due        Int64                                          EPHEMERAL 0 COMMENT 'For writing only: when the next attempt is due, Unix milliseconds; 0 for none',
    standing        SimpleAggregateFunction(max, UInt128)          DEFAULT bitShiftLeft(toUInt128(version), 64) + bitShiftLeft(toUInt128(indexOf(['QUEUED', 'WAITING', 'DELIVERED', 'FAILED', 'CANCELLED'], fact_state)), 48) + toUInt128(fact_due) COMMENT 'Version, state and time of the next attempt, packed: read state and next_attempt_at' CODEC(ZSTD(1)),
    state           String                                         ALIAS ['QUEUED', 'WAITING', 'DELIVERED', 'FAILED', 'CANCELLED'][toUInt8(bitAnd(bitShiftRight(standing, 48), 7))] COMMENT 'QUEUED, WAITING, DELIVERED, FAILED or CANCELLED',
    next_attempt_at Nullable(DateTime64(3, 'UTC'))                 ALIAS nullIf(fromUnixTimestamp64Milli(toInt64(bitAnd(standing, 281474976710655)), 'UTC'), toDateTime64(0, 3, 'UTC')) COMMENT 'When the next attempt is due by the schedule; NULL when none is. The view current_deliveries also counts the enabling of an endpoint',
    topic           String                                         ALIAS 'journal' COMMENT 'Topic of the facts, without the deployment''s prefix',
    partition       SimpleAggregateFunction(max, Int32)            COMMENT 'Partition of the facts' CODEC(ZSTD(1)),
    offset          SimpleAggregateFunction(max, Int64)            COMMENT 'Offset of the last fact' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (event_id, endpoint_id)
SETTINGS index_granularity = 128, min_compress_block_size = 16384, max_compress_block_size = 65536
COMMENT 'Current state of each delivery. Holds a row for each fact until parts are merged: read with FINAL, or the view current_deliveries';
