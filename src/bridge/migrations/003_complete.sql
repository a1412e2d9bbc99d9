-- Signing keys of webhooks that the bridge has registered itself, sealed under the master key. `secret` is null between
-- the intent to register and the answer: a webhook of this name and URL that the service then knows has a key that
-- nobody has seen, and is deleted. A retired key is still good for a while, for what was sent before the rotation;
-- `deleted` is when its webhook was gone from the service, too.
create table bridge.webhooks (
  id uuid primary key,
  source text not null,
  uuid text,
  name text not null,
  url text not null,
  secret bytea,
  created timestamptz not null,
  retired timestamptz,
  deleted timestamptz
);
create index webhooks_by_source on bridge.webhooks (source);

-- Requests that count against a source's limits, so that all workers together keep within them. A use stands in the
-- slot of its time, by the slot's end: it counts for longer than it does at the source, never for less. Of a request
-- that is under way nobody knows when the source counts it: it stands at the last time at which that can be, and is
-- moved to an earlier one when it is known to have ended.
create table bridge.quota_uses (
  source text not null,
  bucket text not null,
  -- The length of the window.
  seconds int not null,
  slot timestamptz not null,
  used int not null,
  primary key (source, bucket, seconds, slot)
);

-- A source that refused a request is left alone until then. Afterwards one request at a time tries whether it may go on.
create table bridge.quota_pauses (
  source text not null,
  bucket text not null,
  since timestamptz not null,
  until timestamptz not null,
  -- In a row.
  refusals int not null,
  primary key (source, bucket)
);

create function bridge.quota_slot_width(seconds int) returns interval language sql immutable as
  'select make_interval(secs => greatest(1, seconds / 120))';

-- How long a use counts after its slot: longer than the window, as the machines' clocks differ by up to two seconds,
-- and do not run alike.
create function bridge.quota_stay(seconds int) returns interval language sql immutable as
  'select make_interval(secs => seconds * 1.001 + 2)';

create function bridge.count_quota_use(
  the_source text, the_bucket text, the_seconds int, at timestamptz
) returns void language sql as $$
  insert into bridge.quota_uses (source, bucket, seconds, slot, used)
  values (the_source, the_bucket, the_seconds,
    date_bin(bridge.quota_slot_width(the_seconds), at, 'epoch') + bridge.quota_slot_width(the_seconds), 1)
  on conflict (source, bucket, seconds, slot) do update set used = quota_uses.used + 1
$$;

-- Counts a request that is about to be sent, unless a quota is spent or the source is to be left alone: then `wait_ms`
-- says for how long. `held` is the last time at which the source can count it; `ended` are such times of requests that
-- have ended since. `probing`: the first request after a refusal.
create function bridge.take_quota(
  in the_source text, in the_bucket text, in asked timestamptz, in held timestamptz,
  in quotas int[], in windows int[], in ended timestamptz[],
  out wait_ms bigint, out probing boolean
) language plpgsql as $$
declare
  far constant timestamptz := held + interval '1 minute';
  pause bridge.quota_pauses;
  width interval;
  stay interval;
  ended_one timestamptz;
  total bigint;
  leaves timestamptz;
begin
  perform pg_advisory_xact_lock(hashtextextended(the_bucket || ' ' || the_source, 3));
  for i in 1 .. cardinality(windows) loop
    width := bridge.quota_slot_width(windows[i]);
    stay := bridge.quota_stay(windows[i]);
    foreach ended_one in array ended loop
      update bridge.quota_uses set used = used - 1
        where source = the_source and bucket = the_bucket and seconds = windows[i] and used > 0
          and slot = date_bin(width, ended_one, 'epoch') + width;
      if found then
        perform bridge.count_quota_use(the_source, the_bucket, windows[i], least(asked, ended_one));
      end if;
    end loop;
    -- A clock that was wrong and was set right: what it counted, in a time that is yet to come, counts from now.
    with wrong as (
      delete from bridge.quota_uses
        where source = the_source and bucket = the_bucket and seconds = windows[i] and slot > far + width
        returning used
    )
    insert into bridge.quota_uses (source, bucket, seconds, slot, used)
      select the_source, the_bucket, windows[i], date_bin(width, held, 'epoch') + width, sum(used) from wrong
      having count(*) > 0
      on conflict (source, bucket, seconds, slot) do update set used = quota_uses.used + excluded.used;
    delete from bridge.quota_uses
      where source = the_source and bucket = the_bucket and seconds = windows[i] and slot <= asked - stay;
    select sum(used) into total from bridge.quota_uses
      where source = the_source and bucket = the_bucket and seconds = windows[i];
    if total >= quotas[i] then
      -- What is under way ends soon, most likely.
      select least(s.slot, asked + width) + stay into leaves from (
        select slot, sum(used) over (order by slot) as so_far from bridge.quota_uses
          where source = the_source and bucket = the_bucket and seconds = windows[i]
      ) s where s.so_far > total - quotas[i] order by s.slot limit 1;
      wait_ms := greatest(wait_ms, ceil(extract(epoch from leaves - asked) * 1000));
    end if;
  end loop;

  select * into pause from bridge.quota_pauses where source = the_source and bucket = the_bucket;
  if pause.since > asked + interval '1 minute' then
    pause.until := asked + (pause.until - pause.since);
    update bridge.quota_pauses set since = asked, until = pause.until
      where source = the_source and bucket = the_bucket;
  end if;
  if pause.until > asked then
    wait_ms := greatest(wait_ms, ceil(extract(epoch from pause.until - asked) * 1000));
  end if;
  probing := wait_ms is null and pause.until is not null;
  if wait_ms is not null then
    return;
  end if;
  if probing then
    update bridge.quota_pauses set until = asked + interval '4 seconds'
      where source = the_source and bucket = the_bucket;
  end if;
  for i in 1 .. cardinality(windows) loop
    perform bridge.count_quota_use(the_source, the_bucket, windows[i], held);
  end loop;
end $$;

-- Remembers that the source has refused a request that was let through at `taken`, and gives for how long it is to be
-- left alone: for what it asked, or for a time that doubles with each refusal in a row. Refusals of requests that were
-- under way together are one.
create function bridge.pause_quota(
  in the_source text, in the_bucket text, in taken timestamptz, in now_is timestamptz,
  in asked_ms bigint, in first_ms bigint, in most_ms bigint,
  out wait_ms bigint
) language plpgsql as $$
declare
  pause bridge.quota_pauses;
begin
  perform pg_advisory_xact_lock(hashtextextended(the_bucket || ' ' || the_source, 3));
  select * into pause from bridge.quota_pauses where source = the_source and bucket = the_bucket;
  if pause.since is null then
    pause.refusals := 1;
  elsif pause.since <= taken then
    pause.refusals := pause.refusals + 1;
  end if;
  wait_ms := case
    when asked_ms is null then least(most_ms, first_ms * 2 ^ least(pause.refusals - 1, 30))
    when pause.refusals = 1 then asked_ms
    else greatest(asked_ms, least(most_ms, first_ms * 2 ^ least(pause.refusals - 2, 30)))
  end;
  insert into bridge.quota_pauses (source, bucket, since, until, refusals)
    values (the_source, the_bucket, now_is, now_is + wait_ms * interval '1 millisecond', pause.refusals)
    on conflict (source, bucket) do update set since = excluded.since, refusals = excluded.refusals,
      until = greatest(excluded.until, case when quota_pauses.since > taken then quota_pauses.until end)
    returning ceil(extract(epoch from until - now_is) * 1000) into wait_ms;
end $$;

-- `generation` grows when a person sets or resets the checkpoint: a pull that began before writes nothing more.
-- `lateness_ms` is what an audit has raised the setting to. `unfiltered` is when the feed was first read to its end
-- without a filter, for records that have no `modified`; until then `unfiltered_next` is the page to go on with.
-- `commit_ordered` is what the feed declared last. `habits` is what `check` has learned of the feed.
-- What is newest of the feed at `ripening_at` is `ripening`; when it has been known for the lateness bound, it is `ripe`:
-- the watermark does not pass it. `audited` and `swept` are when a window, and the whole feed, was last read again.
-- `warning` says what a person should know although the feed is read. Before `news_from` a notification asks for no pull:
-- the source's quota is running short.
alter table bridge.checkpoints
  add column generation bigint not null default 0,
  add column lateness_ms bigint,
  add column unfiltered timestamptz,
  add column unfiltered_next text,
  add column commit_ordered boolean,
  add column ripe timestamptz,
  add column ripening timestamptz,
  add column ripening_at timestamptz,
  add column habits jsonb,
  add column audited timestamptz,
  add column audit_asked timestamptz,
  add column swept timestamptz,
  add column late_finds bigint not null default 0,
  add column news_from timestamptz,
  add column warning text;

-- A version older than the one held: a replica that lags shows it for a moment, a source that was set back for good.
-- Believed when it is still shown after the lateness bound; the watermark does not pass it before.
create table bridge.doubts (
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

-- Ranges of time that are read once more at `due`: a stamp that held more records than a page.
create table bridge.rereads (
  source text not null,
  feed text not null,
  range_start timestamptz not null,
  range_end timestamptz not null,
  due timestamptz not null,
  primary key (source, feed, range_start, range_end)
);

-- A range of time that is read again beside the live pull, whose checkpoint it does not touch. Its `kind` is `range`
-- (asked for by a person), `audit` (a window, to count what was missed) or `full` (an audit of the whole feed, which also
-- tells what has vanished).
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
  late_finds bigint not null default 0,
  asked timestamptz not null,
  finished timestamptz,
  cancelled timestamptz,
  last_error text,
  failures int not null default 0,
  next_try timestamptz not null
);
create index backfills_open on bridge.backfills (source, feed, id) where finished is null and cancelled is null;

-- A record that a complete sweep did not show any more, and one that two sweeps did not show: it is in no document then.
alter table bridge.mirror
  add column missing_since timestamptz,
  add column gone timestamptz;
create index mirror_missing on bridge.mirror (source, feed, missing_since) where missing_since is not null;

create index mirror_history_replaced on bridge.mirror_history (replaced);

-- Objects that have no feed of their own, as they were seen last: the list of suppliers (`supplier-master`, by external
-- id), and what pages include: `sourcing-event`, `supplier`, `question`. They carry no time of change, so that the answer
-- that was asked for later counts.
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

-- When the list of suppliers was read last, and is to be read next.
create table bridge.supplier_sweeps (
  source text primary key,
  next_sweep timestamptz not null,
  last_sweep timestamptz,
  failures int not null default 0,
  last_error text
);

-- `paused_kind`: operator, auth, config, withdrawals. `settings_mark` is a MAC of the connector's settings: a pause that
-- came of them ends when they have changed. The circuit opens after so many failures in a row and lets one document
-- through after `circuit_until`; before `resting_until` nothing is sent, as the ERP has asked for it. Withdrawals of
-- what began to differ before `withdrawals_agreed` are agreed to. `connector` is what its documents were delivered through.
alter table bridge.flows
  add column connector text,
  add column paused_kind text,
  add column paused_at timestamptz,
  add column settings_mark text,
  add column failures_in_row int not null default 0,
  add column circuit_until timestamptz,
  add column resting_until timestamptz,
  add column withdrawals_agreed timestamptz;

-- `waiting_since` is when the document began to differ from what was delivered; it outlasts the retries. `forced` writes
-- it again even if nothing differs: a replay; the ERP is asked before. `doubtful_since`: a process that had lost its lease
-- may have called the ERP last, or the flow got another connector; the ERP is asked what it holds. `intent_by` is the process whose call it is. `delivered_body` is what was delivered, for
-- people who ask what would change; null where that was too long. `withdraws` is the `wanted` at which the document was
-- found to be a withdrawal: those are counted before any of them is sent. `withdrawn` is when the ERP took one that
-- nobody had agreed to.
alter table bridge.flow_documents
  alter column sourcing_event drop not null,
  add column waiting_since timestamptz,
  add column forced boolean not null default false,
  add column doubtful_since timestamptz,
  add column intent_by text,
  add column error_type text,
  add column delivered_body text,
  add column withdraws bigint,
  add column withdrawn timestamptz;
update bridge.flow_documents set waiting_since = due where due is not null;
-- For the status, which counts them without reading the rows.
create index flow_documents_waiting on bridge.flow_documents (flow, waiting_since) include (kind)
  where waiting_since is not null and dead_since is null;
create index flow_documents_retried on bridge.flow_documents (flow) include (kind)
  where waiting_since is not null and dead_since is null and attempts > 0;
-- The push takes the documents of one kind, those that wait longest first, without passing over any others.
drop index bridge.flow_documents_due;
create index flow_documents_to_push on bridge.flow_documents (flow, kind, due)
  where due is not null and (withdraws = wanted) is not true;
create index flow_documents_to_withdraw on bridge.flow_documents (flow, kind, due)
  where due is not null and withdraws = wanted;
create index flow_documents_to_look_up on bridge.flow_documents (flow, kind, due)
  where due is not null and (intent_id is not null or forced or doubtful_since is not null);
create index flow_documents_withdrawn on bridge.flow_documents (flow, withdrawn) where withdrawn is not null;
create index flow_documents_dead on bridge.flow_documents (flow, dead_since) include (kind) where dead_since is not null;
-- The latest deliveries, for the console.
create index flow_documents_delivered on bridge.flow_documents (delivered) where delivered is not null;

-- Whose document it is, where it shows something of a supplier: what changes of the supplier changes that document.
alter table bridge.flow_documents add column supplier text;
update bridge.flow_documents set supplier = split_part(key, '/', 2) where kind = 'award';
create index flow_documents_by_supplier on bridge.flow_documents (supplier) where supplier is not null;

-- What names a supplier or a file: a feed's record or a resource. Kept for the kinds that a flow of the source wants;
-- `current` is false where only an earlier version named it.
create table bridge.mentions (
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
create index mentions_by_event on bridge.mentions (source, sourcing_event) where sourcing_event is not null;
create index mentions_by_supplier on bridge.mentions (source, supplier) where supplier is not null;

-- The one supplier that a record is of; empty for none, for many, and for what was stored before this column was made.
alter table bridge.mirror add column supplier text not null default '';
drop index bridge.mirror_by_event;
create index mirror_by_event on bridge.mirror (source, sourcing_event, feed, supplier);
