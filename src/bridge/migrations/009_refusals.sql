-- Notifications that were refused, counted by source and reason: a key that is wrong on one side shows here. A row for
-- each reason, so that a flood makes nothing grow.
create table bridge.refusals (
  source text not null,
  reason text not null,
  first timestamptz not null,
  last timestamptz not null,
  count bigint not null,
  primary key (source, reason)
);
