-- Where the event of a delivery went on, by the fact in the delivery's own partition: the
-- delivery there is in another, which may be projected later.
ALTER TABLE {database:Identifier}.deliveries
ADD COLUMN IF NOT EXISTS moved_to SimpleAggregateFunction(max, String) COMMENT 'Endpoint that the event was handed over to; empty for none (ep_…)' CODEC(ZSTD(1)) AFTER moves;
