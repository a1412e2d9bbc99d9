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
  -- Whether the last pull followed the order of commits: the feed declared it, and it is proved.
  commit_ordered boolean,
  -- When the declared order was proved; and when the feed broke it, or its declaration was refuted, with what was seen.
  -- From then on the feed is read in windows.
  order_proved timestamptz,
  order_broken timestamptz,
  order_broken_why text,
  -- The lateness bound, where an audit has raised it above the setting.
  lateness_ms bigint,
  -- What `bridge check` has found out about the source.
  source_profile jsonb,

  -- The first reads without a filter, for records that have no `modified`: when they came to their end. Until then: the
  -- pass (0 is the first), how many such records it has found that were not known before, the page to go on with, when
  -- to go on, and why the pages broke off last.
  unfiltered timestamptz,
  unfiltered_pass int not null default 0,
  unfiltered_found bigint not null default 0,
  unfiltered_next text,
  unfiltered_due timestamptz,
  unfiltered_why text,
  -- The full audit for which these reads are made once more; null: they belong to the first sync.
  unfiltered_audit bigint,

  -- Set while the watermark stands still although newer records are known: since when, and why; the text names the
  -- request that repeats. Null as soon as the watermark has moved, or nothing newer is known.
  stalled_since timestamptz,
  stalled_why text,

  -- The window scan: when it ran last, and the bound that it does not pass. `newest_noted` was the newest stamp of the
  -- feed at `newest_noted_at`. Once it has been known for the lateness bound, it becomes `first_seen_bound`.
  scanned timestamptz,
  first_seen_bound timestamptz,
  newest_noted timestamptz,
  newest_noted_at timestamptz,
  -- From which it is learnt by how much the clock of the stamps is ahead of the source's `Date`.
  offset_samples jsonb not null default '[]',

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
create index backfills_audits on bridge.backfills (source, feed, id desc) where kind <> 'range';
create index backfills_open on bridge.backfills (source, feed, id) where finished is null and cancelled is null;

-- What a source usually sends, learned from its records and answers: the forms of fields, how often fields were there
-- that flows need, paging, page size and clock.
create table bridge.source_forms (
  source text not null,
  feed text not null,
  fields text not null,
  counts jsonb not null,
  traits jsonb not null,
  -- How many records were looked at.
  records bigint not null,
  version bigint not null,
  primary key (source, feed)
);

-- What has changed at a source: `field` (never seen before), `form` (a value of a new form), `gone` (a field that a flow
-- needs), `paging`, `page size`, `clock`. One row for each thing, with its latest change.
create table bridge.source_changes (
  source text not null,
  feed text not null,
  kind text not null,
  subject text not null,
  detail text not null,
  noticed timestamptz not null,
  -- When a field that was gone was seen again.
  resolved timestamptz,
  primary key (source, feed, kind, subject)
);

-- The list of suppliers has no feed: it is read as a whole, on a schedule.
create table bridge.supplier_lists (
  source text primary key,
  next_pull timestamptz not null,
  last_pull timestamptz,
  failures int not null default 0,
  last_error text
);
