-- The mirror: what the sources hold, as they sent it.

-- The newest version of each record. `supplier` is the one supplier that the record belongs to; empty for none or many.
-- `missing_since`: a complete read of the feed did not show the record. `gone`: two complete reads did not show it, and
-- it is in no document any more.
create table bridge.mirror (
  source text not null,
  feed text not null,
  record_id text not null,
  modified timestamptz not null,
  content_hash bytea not null,
  sourcing_event text,
  supplier text not null default '',
  body text not null,
  seen timestamptz not null,
  missing_since timestamptz,
  gone timestamptz,
  primary key (source, feed, record_id)
);
create index mirror_by_time on bridge.mirror (source, feed, modified desc);
create index mirror_by_event on bridge.mirror (source, sourcing_event, feed, supplier);
create index mirror_missing on bridge.mirror (source, feed, missing_since) where missing_since is not null;

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
create index mirror_history_replaced on bridge.mirror_history (replaced);

-- Objects without a feed of their own, as they were seen last: the list of suppliers (`supplier-master`, by external
-- id), and what pages include: `sourcing-event`, `supplier`, `question`. They carry no time of change, so the answer to
-- the later request counts.
create table bridge.resources (
  source text not null,
  kind text not null,
  id text not null,
  sourcing_event text,
  content_hash bytea not null,
  body text not null,
  observed timestamptz not null,
  primary key (source, kind, id)
);
create index resources_by_event on bridge.resources (source, sourcing_event, kind) where sourcing_event is not null;

-- Which feed records and resources refer to a supplier or to a file: no event owns their documents, so these rows are
-- the only way to them. Kept for the kinds that a flow of the source wants. `current` is false where only an earlier
-- version refers to it.
create table bridge.record_references (
  source text not null,
  kind text not null,
  key text not null,
  part text not null,
  record_id text not null,
  sourcing_event text,
  supplier text,
  current boolean not null,
  primary key (source, kind, key, part, record_id)
);
create index record_references_by_event on bridge.record_references (source, sourcing_event)
  where sourcing_event is not null;
create index record_references_by_supplier on bridge.record_references (source, supplier) where supplier is not null;
