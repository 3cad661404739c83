-- How far the topics are in the tables. A row is written after the data that it
-- covers, and stays true whoever wrote it, so the highest counts.
CREATE TABLE IF NOT EXISTS {database:Identifier}.projection_progress
(
    generation  UInt32                 COMMENT 'Generation of the tables: a rebuild fills a new one',
    topic       LowCardinality(String) COMMENT 'Topic, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the topic',
    next_offset Int64                  COMMENT 'Every committed record below this offset is in the tables',
    written_at  DateTime64(3, 'UTC')   DEFAULT now64(3) COMMENT 'When the row was written'
)
ENGINE = ReplacingMergeTree(next_offset)
ORDER BY (generation, topic, partition)
COMMENT 'How far each partition is projected. Read max(next_offset) by generation, topic and partition';
