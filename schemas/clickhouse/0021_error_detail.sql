-- Why an attempt failed, in words: the stage and the cause.
ALTER TABLE {database:Identifier}.attempts
ADD COLUMN IF NOT EXISTS error_detail String COMMENT 'Stage and cause of the error, such as: connect: connection refused; empty when there was none, and in rows of versions that had no details' CODEC(ZSTD(1)) AFTER error;

CREATE OR REPLACE VIEW {database:Identifier}.attempt_outcomes
AS SELECT
    event_id, number, run, event_type, endpoint_id, sent_at, duration_ms, status_code, CAST(attempts.error, 'String') AS error, error_detail, CAST(attempts.state, 'String') AS state, next_attempt_at, version,
    multiIf(state = 'DELIVERED', 'delivered', error != '', error, status_code IS NOT NULL, concat('HTTP ', toString(assumeNotNull(status_code))), 'unknown') AS outcome,
    state = 'DELIVERED' AS succeeded
FROM {database:Identifier}.attempts FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Attempts, one row each, with an outcome in one word: delivered, an error code, or the HTTP status';
