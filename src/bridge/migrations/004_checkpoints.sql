-- Checkpoints: how far each feed has been read, and what is still to be read again.

-- Everything up to `watermark` is in the mirror.
create table bridge.checkpoints (
  source text not null,
  feed text not null,
  watermark timestamptz,
  -- Grows when a person sets or resets the checkpoint: a pull that began before then writes nothing more.
  generation bigint not null default 0,

  -- The schedule.
  next_pull timestamptz not null,
  last_pull timestamptz,
  failures int not null default 0,
  last_error text,
  -- What a person should know although the feed is read.
  warning text,
  -- Until then notifications ask for no pull: little is left of the source's quota.
  throttled_until timestamptz,

  -- How the feed has to be read.
  -- What the feed declared last.
  commit_ordered boolean,
  -- The lateness bound, where an audit has raised it above the setting.
  lateness_ms bigint,
  -- What `bridge check` has found out about the source.
  source_profile jsonb,

  -- The first read without a filter, for records that have no `modified`: when it came to its end, and until then the
  -- page to go on with.
  unfiltered timestamptz,
  unfiltered_next text,

  -- The window scan: when it ran last, and the bound that it does not pass. `newest_noted` was the newest stamp of the
  -- feed at `newest_noted_at`. Once it has been known for the lateness bound, it becomes `first_seen_bound`.
  scanned timestamptz,
  first_seen_bound timestamptz,
  newest_noted timestamptz,
  newest_noted_at timestamptz,

  -- Audits: the last one of a window, the last one of the whole feed, when a person asked for one, and how many late
  -- arrivals they have found so far.
  audited timestamptz,
  fully_audited timestamptz,
  audit_asked timestamptz,
  late_arrivals bigint not null default 0,
  primary key (source, feed)
);

-- Suspect versions: older than the version that the mirror holds. A lagging replica shows one for a moment; a source
-- that was set back shows it for good. It is believed if the source still shows it after the lateness bound. Until then
-- the watermark does not pass it.
create table bridge.suspect_versions (
  source text not null,
  feed text not null,
  record_id text not null,
  modified timestamptz not null,
  content_hash bytea not null,
  body text not null,
  first_shown timestamptz not null,
  last_shown timestamptz not null,
  primary key (source, feed, record_id)
);

-- Ranges of time that are read once more at `due`: a suspect version, or a stamp that held more records than a page.
create table bridge.rereads (
  source text not null,
  feed text not null,
  range_start timestamptz not null,
  range_end timestamptz not null,
  due timestamptz not null,
  primary key (source, feed, range_start, range_end)
);

-- Ranges of time that are read again beside the live pull, whose checkpoint they do not touch. `kind` is `range` (a
-- person asked for it), `audit` (a window, to count late arrivals) or `full` (an audit of the whole feed, which also
-- finds records that have vanished).
create table bridge.backfills (
  id bigint generated always as identity primary key,
  source text not null,
  feed text not null,
  kind text not null default 'range',
  range_start timestamptz not null,
  range_end timestamptz not null,
  -- Everything up to here is in the mirror.
  position timestamptz,
  records bigint not null default 0,
  changed bigint not null default 0,
  late_arrivals bigint not null default 0,
  asked timestamptz not null,
  finished timestamptz,
  cancelled timestamptz,
  last_error text,
  failures int not null default 0,
  next_try timestamptz not null
);
create index backfills_open on bridge.backfills (source, feed, id) where finished is null and cancelled is null;

-- The list of suppliers has no feed: it is read as a whole, on a schedule.
create table bridge.supplier_lists (
  source text primary key,
  next_pull timestamptz not null,
  last_pull timestamptz,
  failures int not null default 0,
  last_error text
);
