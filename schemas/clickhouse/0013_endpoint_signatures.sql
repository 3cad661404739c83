-- Signatures that an endpoint's deliveries carry besides the specification's.
ALTER TABLE {database:Identifier}.endpoints
ADD COLUMN IF NOT EXISTS signatures Array(LowCardinality(String)) COMMENT 'Signatures of its deliveries besides the usual one: standard-webhooks, standard-webhooks-ed25519' AFTER rate_limit_per_second;
