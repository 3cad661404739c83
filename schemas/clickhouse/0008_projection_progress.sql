-- How far the topics are in each table. A row is written after the data that it
-- covers, and stays true whoever wrote it, so the highest counts. It is about a
-- generation of a table, and that is the table's own UUID: one that was dropped
-- and made anew, or filled beside the live one, is another, and a table that is
-- exchanged takes its progress along.
CREATE TABLE IF NOT EXISTS {database:Identifier}.projection_progress
(
    generation  UUID                   COMMENT 'UUID of the table that is filled, as in system.tables',
    table_name  LowCardinality(String) COMMENT 'Name that the table had when the row was written',
    topic       LowCardinality(String) COMMENT 'Topic, without the deployment''s prefix',
    partition   Int32                  COMMENT 'Partition of the topic',
    next_offset Int64                  COMMENT 'Every committed record below this offset is in the table',
    written_at  DateTime64(3, 'UTC')   DEFAULT now64(3) COMMENT 'When the row was written'
)
ENGINE = ReplacingMergeTree(next_offset)
ORDER BY (generation, topic, partition)
COMMENT 'How far each partition is projected. Read max(next_offset) by generation, topic and partition';
