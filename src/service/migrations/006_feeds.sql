-- The feeds: their heads and their records.

-- One row for each organisation and feed. A transaction that appends to the feed locks the row until its commit, so the
-- order of `modified` is the order of commits: a reader that has seen a page never finds an older record later. Where
-- the row is missing, because the organisation is older than the feed, the first append inserts it.
create table service.feed_heads (
  organisation_id uuid not null references service.organisations,
  feed text not null,
  last_modified timestamptz,
  changes bigint not null default 0,
  primary key (organisation_id, feed)
);

-- Each record once, at the place of its latest change, with the text that is sent.
create table service.feed_records (
  organisation_id uuid not null references service.organisations,
  feed text not null,
  id text not null,
  modified timestamptz not null,
  sourcing_event uuid not null,
  status text,
  visible boolean not null,
  content_hash bytea not null,
  body text not null,
  -- Filters compare these. An event's tags stand with its record in the events feed, each as the JSON text
  -- `["name","value"]`.
  tags text[],
  -- Only of an event.
  is_test boolean,
  -- For an event: all of its requests. For a record of another feed: the request of its lot.
  requests uuid[],
  -- The object that `include=sourcing_events` shows of an event, as JSON text.
  summary text,
  primary key (organisation_id, feed, id)
);
create unique index feed_records_order on service.feed_records (organisation_id, feed, modified) where visible;
-- For each filter an index in the order of the feed: a page with one filter is read from the index alone. Hidden
-- records are in none of these indexes.
create index feed_records_by_event on service.feed_records (organisation_id, feed, sourcing_event, modified)
  where visible;
create index feed_records_by_status on service.feed_records (organisation_id, status, modified)
  where visible and feed = 'sourcing-events';
create index feed_records_by_request on service.feed_records (organisation_id, feed, (requests[1]), modified)
  where visible and feed <> 'sourcing-events' and requests[1] is not null;
create index feed_records_by_requests on service.feed_records using gin (requests)
  where visible and feed = 'sourcing-events';
create index feed_records_by_tags on service.feed_records using gin (tags)
  where visible and feed = 'sourcing-events';
-- Test events are few: they are found without reading all others.
create index feed_records_of_tests on service.feed_records (organisation_id, sourcing_event)
  where visible and feed = 'sourcing-events' and is_test;
