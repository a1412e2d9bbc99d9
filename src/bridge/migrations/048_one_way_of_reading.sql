-- Feeds are read in one way, which needs less state. What was learnt of a source stands in its profile, the times at which
-- newest stamps were seen in `first_seen`, and what belongs to an audit in its row of `bridge.backfills`.
alter table bridge.backfills
  -- What a person should know after the audit, although the feed is read.
  add column warning text;

update bridge.backfills b set warning = c.warning from bridge.checkpoints c
  where c.warning is not null and b.id = (
    select max(id) from bridge.backfills
    where source = c.source and feed = c.feed and kind = 'full' and finished is not null);

-- `untimed`: the records without a time are read by pages without a filter. Where that was done, it is not done again.
insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try, finished)
  select source, feed, 'untimed', 'epoch', 'epoch', now(), now(), unfiltered from bridge.checkpoints
  where commit_ordered is not true and last_pull is not null;

-- An audit that a person has asked for, and that has not begun.
insert into bridge.backfills (source, feed, kind, range_start, range_end, asked, next_try)
  select source, feed, 'full', 'epoch', least(watermark, now()), audit_asked, now() from bridge.checkpoints c
  where audit_asked is not null and not exists (select from bridge.backfills b
    where b.source = c.source and b.feed = c.feed and b.kind = 'full' and b.finished is null and b.cancelled is null);

alter table bridge.checkpoints
  -- When the feed was first read, or was set back to its beginning.
  add column created timestamptz not null default now(),
  -- {bound, sample, sampledAt}: a stamp that was seen for the lateness bound, the newest stamp, and when it was noted.
  add column first_seen jsonb not null default '{}';
create function pg_temp.as_text(at timestamptz) returns text language sql as
  $$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
update bridge.checkpoints set
  created = coalesce(fully_audited, audited, last_pull, now()),
  first_seen = jsonb_strip_nulls(jsonb_build_object('bound', pg_temp.as_text(first_seen_bound))),
  source_profile = jsonb_strip_nulls(jsonb_build_object(
    'granularityMicros', source_profile -> 'granularityMicros',
    'includes', source_profile -> 'includes',
    'pageSize', source_profile -> 'pageSize',
    'latenessMs', lateness_ms,
    'orderProved', case when commit_ordered then pg_temp.as_text(order_proved) end,
    'orderBroken', pg_temp.as_text(order_broken),
    'orderBrokenWhy', order_broken_why));
alter table bridge.checkpoints
  alter column source_profile set default '{}',
  alter column source_profile set not null,
  drop column commit_ordered, drop column order_proved, drop column order_broken, drop column order_broken_why,
  drop column lateness_ms, drop column unfiltered, drop column unfiltered_pass, drop column unfiltered_found,
  drop column unfiltered_next, drop column unfiltered_due, drop column unfiltered_why, drop column unfiltered_audit,
  drop column stalled_since, drop column scanned, drop column first_seen_bound, drop column newest_noted,
  drop column newest_noted_at, drop column offset_samples, drop column audited, drop column fully_audited,
  drop column audit_asked, drop column late_arrivals, drop column warning;
drop table bridge.suspect_versions;
drop table bridge.rereads;
