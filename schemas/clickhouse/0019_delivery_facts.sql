-- Time travel of deliveries: their facts that no other table tells. The creation of a delivery is
-- its row of events, an attempt that of attempts, so a delivery that succeeds has no row here.
CREATE TABLE IF NOT EXISTS {database:Identifier}.delivery_facts
(
    event_id    String                 COMMENT 'Identifier of the event (evt_…)' CODEC(ZSTD(1)),
    endpoint_id String                 COMMENT 'Endpoint that the delivery is to (ep_…)' CODEC(ZSTD(1)),
    version     UInt64                 COMMENT 'Version of the endpoint that the fact made' CODEC(Delta, ZSTD(1)),
    fact        LowCardinality(String) COMMENT 'DeliveryRequeued, DeliveryCancelled, DeliveryMoved, DeliveryRecalled, or DeliveryCreated of an event that was handed over',
    form        LowCardinality(String) COMMENT 'Schema version of the value',
    happened_at DateTime64(3, 'UTC')   COMMENT 'When it happened' CODEC(Delta, ZSTD(1)),
    value       String                 COMMENT 'The fact, as the Protobuf message that it names, without the body of the event' CODEC(ZSTD(1)),
    topic       LowCardinality(String) DEFAULT 'journal' COMMENT 'Topic of the fact, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the fact' CODEC(ZSTD(1)),
    offset      Int64                  COMMENT 'Offset of the fact' CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (event_id, endpoint_id, version)
SETTINGS index_granularity = 256
COMMENT 'Facts of deliveries beside their creation and their attempts: queued again, cancelled, handed over, recalled. May hold copies of a row until parts are merged: read with FINAL';
