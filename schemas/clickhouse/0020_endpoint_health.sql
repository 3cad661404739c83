-- How an endpoint does: attempts counted by spans of time, and what has not ended yet.
--
-- An attempt is one member of a set: the version of the endpoint that its fact made, which no other
-- fact has. So a fact that is written twice counts once, as a sum would not, and the count of a set
-- is exact. Versions are dense, so a set takes a few bits per attempt. Spans of 300 seconds are for
-- the last hour, those of 3600 for days.
CREATE TABLE IF NOT EXISTS {database:Identifier}.attempt_counts
(
    endpoint_id  String                                COMMENT 'Endpoint that was sent to (ep_…)' CODEC(ZSTD(1)),
    seconds      UInt32                                COMMENT 'Length of the span: 300 or 3600; an attempt is in one of each' CODEC(ZSTD(1)),
    fact_version UInt64                                EPHEMERAL 0 COMMENT 'For writing only: version of the endpoint that the attempt made',
    fact_state   LowCardinality(String)                EPHEMERAL '' COMMENT 'For writing only: state of the delivery after the attempt',
    fact_sent    Int64                                 EPHEMERAL 0 COMMENT 'For writing only: when the attempt was sent, Unix milliseconds',
    at           DateTime('UTC')                       DEFAULT toDateTime(intDiv(fact_sent, 1000 * seconds) * seconds, 'UTC') COMMENT 'Start of the span' CODEC(Delta, ZSTD(1)),
    delivered    AggregateFunction(groupBitmap, UInt64) DEFAULT bitmapBuild(arrayFilter(v -> fact_state = 'DELIVERED', [fact_version])) COMMENT 'Attempts that delivered: groupBitmapMerge(delivered) counts them' CODEC(ZSTD(1)),
    failed       AggregateFunction(groupBitmap, UInt64) DEFAULT bitmapBuild(arrayFilter(v -> fact_state != 'DELIVERED', [fact_version])) COMMENT 'All others: groupBitmapMerge(failed) counts them' CODEC(ZSTD(1)),
    delivered_at SimpleAggregateFunction(max, DateTime64(3, 'UTC')) DEFAULT fromUnixTimestamp64Milli(if(fact_state = 'DELIVERED', fact_sent, 0), 'UTC') COMMENT 'When the last attempt that delivered was sent; 1970 for none' CODEC(ZSTD(1)),
    failed_at    SimpleAggregateFunction(max, DateTime64(3, 'UTC')) DEFAULT fromUnixTimestamp64Milli(if(fact_state != 'DELIVERED', fact_sent, 0), 'UTC') COMMENT 'When the last other attempt was sent; 1970 for none' CODEC(ZSTD(1)),
    topic        String                                ALIAS 'journal' COMMENT 'Topic of the facts, without the deployment''s prefix',
    partition    SimpleAggregateFunction(max, Int32)   COMMENT 'Partition of the facts' CODEC(ZSTD(1)),
    offset       SimpleAggregateFunction(max, Int64)   COMMENT 'Offset of the last fact' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (endpoint_id, seconds, at)
SETTINGS index_granularity = 1024
COMMENT 'Attempts of each endpoint by spans of time. Holds several rows for a span until parts are merged: GROUP BY endpoint_id, seconds, at';

-- The attempts of the last week are counted here; `lumenhook rebuild --table attempt_counts` counts
-- all of them. Repeating this changes nothing.
INSERT INTO {database:Identifier}.attempt_counts (endpoint_id, seconds, at, delivered, failed, delivered_at, failed_at, partition, offset)
SELECT
    endpoint_id, arrayJoin([300, 3600]) AS seconds, toDateTime(intDiv(toUnixTimestamp(sent_at), seconds) * seconds, 'UTC') AS at,
    groupBitmapStateIf(version, state = 'DELIVERED'), groupBitmapStateIf(version, state != 'DELIVERED'),
    maxIf(sent_at, state = 'DELIVERED'), maxIf(sent_at, state != 'DELIVERED'), max(partition), max(offset)
FROM {database:Identifier}.attempts
WHERE sent_at > now64(3) - toIntervalDay(8)
GROUP BY endpoint_id, seconds, at;

-- Whether a delivery has ended, in a column that is quick to look through: it is pending while its
-- run is greater than this. Both only grow, so the rows of a delivery may come in any order.
ALTER TABLE {database:Identifier}.deliveries
ADD COLUMN IF NOT EXISTS ended_run SimpleAggregateFunction(max, UInt32) DEFAULT multiIf(bitAnd(bitShiftRight(standing, 48), 7) IN (3, 4), run, bitAnd(bitShiftRight(standing, 48), 7) = 5, 4294967295, 0) COMMENT 'The last run that has ended; 4294967295 once it is CANCELLED. A delivery is pending while run is greater' CODEC(ZSTD(1)) AFTER run;
