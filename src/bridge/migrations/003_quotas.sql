-- Client-side rate limits: all workers together stay within what a source allows.

-- The requests that count against a source's limits, in slots of time. A request stands at the end of its slot, so it
-- counts for longer here than at the source, never for a shorter time. When the source counts a request that is still
-- under way is not known: it stands at the last possible time, and moves to an earlier slot once it has ended.
create table bridge.quota_uses (
  source text not null,
  bucket text not null,
  -- The length of the window.
  seconds int not null,
  slot timestamptz not null,
  used int not null,
  primary key (source, bucket, seconds, slot)
);

-- After a refusal nothing is sent to the source until `until`. Then one request at a time probes whether it may go on.
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

-- How long a request counts after its slot: longer than the window, as the two machines' clocks may differ by two
-- seconds and run at slightly different speeds.
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

-- Counts a request that is about to be sent. If a quota is spent, or the source has asked for a pause, it counts nothing
-- and returns in `wait_ms` how long to wait. `held` is the last time at which the source can count this request; `ended`
-- are those times of requests that have ended since the last call. `probing`: the first request after a refusal.
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
    -- A clock that was ahead, and has been set back, counted requests in the future: they count from now.
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
      -- Requests that are under way will most likely end soon.
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

-- Stores that the source refused a request that was counted at `taken`, and returns how long to pause: the time that the
-- source asked for, or a time that doubles with each refusal in a row. Refusals of requests that were under way together
-- count as one.
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
