-- What the service itself says of the webhooks of a source, at the last look. `fault` is the worst that was found, as JSON
-- `{uuid, url, kind, why, status, since}`; null: none. A row goes when the webhooks change: then the service is asked again.
create table bridge.webhook_looks (
  source text primary key,
  looked timestamptz not null,
  fault jsonb
);

-- A client without a key can send what is refused. So refusals are counted, and nothing follows from how many there are.
alter table bridge.refusals drop column row_first, drop column row_count;
