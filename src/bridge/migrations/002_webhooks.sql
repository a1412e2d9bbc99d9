-- Notifications, and the webhooks that they come through.

-- Verified notifications, identified by the hash of their bytes: a redelivery is the same row.
create table bridge.inbox (
  id bigint generated always as identity primary key,
  source text not null,
  body_hash bytea not null,
  trigger text not null,
  feed text,
  body text not null,
  received timestamptz not null,
  processed timestamptz,
  unique (source, body_hash)
);
create index inbox_waiting on bridge.inbox (source, feed, id) where processed is null;
-- Old notifications are deleted, processed or not.
create index inbox_received on bridge.inbox (received);

-- Webhooks that the bridge has registered itself, with their signing keys sealed under the master key. `secret` is null
-- between the intent to register and the service's answer. If the bridge dies in between, the service holds a webhook
-- whose key the bridge never received: the next registration deletes it. A retired key stays valid for a while, for
-- notifications that were signed before the rotation. `deleted` is when the service, too, had deleted the webhook.
create table bridge.webhooks (
  id uuid primary key,
  source text not null,
  uuid text,
  name text not null,
  url text not null,
  secret bytea,
  created timestamptz not null,
  retired timestamptz,
  deleted timestamptz
);
create index webhooks_by_source on bridge.webhooks (source);
