-- The bridge's tables. A source is a sourcing service that it reads; a flow takes documents of one source to one ERP.

-- Who works on what: one holder at a time. Every write of the holder is guarded by the epoch, so that a process that
-- was paused or cut off cannot write after another has taken over.
create table bridge.leases (
  name text primary key,
  epoch bigint not null default 0,
  holder bigint,
  expires timestamptz
);

-- Verified notifications, by what their bytes are: a redelivery is the same row.
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
create index inbox_received on bridge.inbox (received) where processed is not null;

-- How far each feed has been read. Everything up to the watermark is in the mirror.
create table bridge.checkpoints (
  source text not null,
  feed text not null,
  watermark timestamptz,
  -- When a feed that does not declare its order was last settled.
  settled timestamptz,
  next_pull timestamptz not null,
  last_pull timestamptz,
  failures int not null default 0,
  last_error text,
  primary key (source, feed)
);

-- The newest version of each record, as the source sent it.
create table bridge.mirror (
  source text not null,
  feed text not null,
  record_id text not null,
  modified timestamptz not null,
  content_hash bytea not null,
  sourcing_event text,
  body text not null,
  seen timestamptz not null,
  primary key (source, feed, record_id)
);
create index mirror_by_time on bridge.mirror (source, feed, modified desc);
create index mirror_by_event on bridge.mirror (source, sourcing_event, feed);

-- The versions before it.
create table bridge.mirror_history (
  source text not null,
  feed text not null,
  record_id text not null,
  modified timestamptz not null,
  content_hash bytea not null,
  body text not null,
  seen timestamptz not null,
  replaced timestamptz not null,
  primary key (source, feed, record_id, modified, content_hash)
);

-- The flows that documents are marked for. A flow that is new here gets all documents of its source.
create table bridge.flows (
  name text primary key,
  source text not null,
  kinds text[] not null,
  paused_reason text
);

-- One row for each document of a flow. `wanted` grows whenever a record that the document is made of changes; when the
-- document as it was at `settled` is in the ERP, and the two are equal, nothing is to be done and `due` is null.
-- The intent is committed before the ERP is called and cleared by the outcome: one that is found here later belongs to
-- a call whose end nobody saw, and the ERP is asked what it holds before anything is sent again.
create table bridge.flow_documents (
  flow text not null references bridge.flows on delete cascade,
  kind text not null,
  key text not null,
  sourcing_event text not null,
  wanted bigint not null default 1,
  settled bigint not null default 0,
  due timestamptz,
  delivered_hash text,
  reference text,
  delivered timestamptz,
  intent_id uuid,
  intent_hash text,
  intent_at timestamptz,
  attempts int not null default 0,
  last_error text,
  dead_since timestamptz,
  primary key (flow, kind, key)
);
create index flow_documents_due on bridge.flow_documents (flow, due) where due is not null;
create index flow_documents_by_event on bridge.flow_documents (sourcing_event);
