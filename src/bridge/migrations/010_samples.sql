-- Samples for the console's charts, so that they need no Prometheus: a row for each feed and each flow and minute, and
-- the same rolled up to ten minutes and to an hour.

-- How many changed versions of records have been stored since the feed was first read.
alter table bridge.checkpoints add column changes bigint not null default 0;

create table bridge.samples (
  -- The length of the time that the row is about: 60, 600 or 3600.
  seconds int not null,
  -- The beginning of that time.
  at timestamptz not null,
  -- `feed` or `flow`.
  subject text not null,
  -- `<source>/<feed>`, or the name of the flow.
  name text not null,
  -- In this time: changed versions stored of a feed, or writes of a flow that the ERP accepted.
  count bigint not null default 0,
  -- The longest lag seen in this time; null: not known.
  lag_seconds float8,
  -- Of a flow, the most seen in this time.
  dead_letters int,
  -- Of a feed and a minute: `changes` of its checkpoint at the end, from which the next minute counts.
  total bigint,
  primary key (seconds, at, subject, name)
);
