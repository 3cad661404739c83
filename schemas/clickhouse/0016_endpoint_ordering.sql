-- What holds an endpoint's events back until others have ended.
ALTER TABLE {database:Identifier}.endpoints
ADD COLUMN IF NOT EXISTS ordering LowCardinality(String) COMMENT 'wallet: the events of a wallet are sent one after another; empty: they wait for none' AFTER signatures;
