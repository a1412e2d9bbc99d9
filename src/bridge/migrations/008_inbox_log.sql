-- The inbox becomes a log: notifications are added at its end, never changed, and deleted when they are old. Which of
-- them wait is a number in the checkpoint of their feed.

-- The notifications of the feed with ids up to this one have been answered by a pull.
alter table bridge.checkpoints add column answered bigint not null default 0;
update bridge.checkpoints c set answered = coalesce(
  (select min(i.id) - 1 from bridge.inbox i where i.source = c.source and i.feed = c.feed and i.processed is null),
  (select max(i.id) from bridge.inbox i where i.source = c.source and i.feed = c.feed),
  0);

-- Which pull has answered which notifications of a feed: those with ids after the first and up to the second.
create table bridge.answers (
  source text not null,
  feed text not null,
  after_id bigint not null,
  last_id bigint not null,
  pull uuid not null,
  answered timestamptz not null,
  primary key (source, feed, last_id)
);
create index answers_by_pull on bridge.answers (pull);
insert into bridge.answers
  select source, feed, min(id) - 1, max(id), pull, max(processed) from bridge.inbox
  where feed is not null and pull is not null group by source, feed, pull;

-- Each index costs a receiver about as much as the row. With the columns their indexes and constraints go.
alter table bridge.inbox
  drop constraint inbox_pkey,
  drop column body_hash,
  drop column processed,
  drop column pull;
drop index bridge.inbox_received;
create index inbox_by_feed on bridge.inbox (source, feed, id);
-- Of all rows of a range of blocks only the first and the last time are kept.
create index inbox_received on bridge.inbox using brin (received);
