-- A receiver that names a time by `Retry-After` gets nothing before it: no notification of the webhook, not only the one
-- that was answered so.
alter table service.webhooks add column held_until timestamptz;

-- The key of the signature of Standard Webhooks, sealed: for webhooks that were created with it. Null: without.
alter table service.webhooks add column standard_key bytea;
