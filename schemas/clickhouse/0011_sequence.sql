-- The number of an event among those of its endpoint. Lists read it beside the body;
-- a resend of what the engine has forgotten reads it beside the delivery's counts.
ALTER TABLE {database:Identifier}.events
ADD COLUMN IF NOT EXISTS sequence UInt64 COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it; 0 in rows of versions that gave none' CODEC(Delta, ZSTD(1)) AFTER ledger_closed_at;

ALTER TABLE {database:Identifier}.deliveries
ADD COLUMN IF NOT EXISTS sequence SimpleAggregateFunction(max, UInt64) COMMENT 'Number of the event among those of its endpoint, 1, 2, 3 …, as Webhook-Sequence has it; 0 in rows of versions that gave none' CODEC(ZSTD(1)) AFTER endpoint_id;
