-- Comparisons also read the feeds of the flow's source again, and compare them with the mirror, window by window.

-- One row for each feed of a run. Everything up to `position` was compared; `upper` is the watermark at the beginning.
create table bridge.reconciliation_feeds (
  run bigint not null references bridge.reconciliations on delete cascade,
  feed text not null,
  upper timestamptz,
  position timestamptz,
  ended timestamptz,
  -- Why the feed, or a part of it, was not compared.
  not_compared text,
  primary key (run, feed)
);

-- How many records a window has at the source and in the mirror, and the SHA-256 over their ids, stamps and contents.
create table bridge.reconciliation_windows (
  run bigint not null references bridge.reconciliations on delete cascade,
  feed text not null,
  range_end timestamptz not null,
  -- Null: from the beginning.
  range_start timestamptz,
  source_records bigint not null,
  source_hash text not null,
  mirror_records bigint not null,
  mirror_hash text not null,
  primary key (run, feed, range_end)
);

-- Records that differ: `missing` in the mirror, `different` there, or `gone` at the source.
create table bridge.reconciliation_feed_findings (
  run bigint not null references bridge.reconciliations on delete cascade,
  feed text not null,
  record_id text not null,
  finding text not null,
  modified timestamptz,
  primary key (run, feed, record_id)
);

-- How many documents and records of an ended run differ or were unclear; and why a run could not go on last.
alter table bridge.reconciliations add column differing bigint;
alter table bridge.reconciliations add column last_error text;
alter table bridge.reconciliations add column failed timestamptz;
