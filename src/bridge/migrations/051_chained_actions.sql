-- The audit log, for a role that owns no table: it may only append, by a function that sets the time, erase a person's address,
-- which is itself an entry, and delete what is older than the owner keeps it. Each entry carries the hash of the one before.

alter table bridge.actions
  -- The place in the chain, and SHA-256 over the hash before it and this entry; null for a moment, until a sweep has linked it.
  add column number bigint unique,
  add column hash bytea,
  -- SHA-256 over what an erasure may change: it stays as it was at first.
  add column content bytea;
create index actions_to_link on bridge.actions (id) where number is null;

-- Whether who asks, or for whom a function of the owner's works, could change the table anyway.
create function bridge.owns_actions(role name) returns boolean language sql stable as $$
  select pg_has_role(role, (select relowner from pg_class where oid = 'bridge.actions'::regclass), 'member')
$$;

-- How many days the owner keeps the log; `migrate` replaces it with the setting `action_days`.
create function bridge.action_days() returns int language sql immutable as 'select 730';

create or replace function bridge.keep_actions() returns trigger language plpgsql as $$
declare
  address text := current_setting('sourcing.erased_address', true);
  mark text := current_setting('sourcing.erased_mark', true);
begin
  if bridge.owns_actions(current_user) then
    if tg_op = 'INSERT' then
      return new;
    end if;
    if tg_op = 'DELETE' and old.at < now() - interval '30 days' then
      return old;
    end if;
    if tg_op = 'UPDATE' and old.hash is null
      and (new.id, new.at, new.actor, new.name, new.what, new.object, new.origin, new.outcome, new.details)
        is not distinct from
        (old.id, old.at, old.actor, old.name, old.what, old.object, old.origin, old.outcome, old.details)
    then
      return new;
    end if;
    if tg_op = 'UPDATE' and address ~ '^[^\s@]+@[^\s@]+$' and mark ~ '^erased-[0-9a-f]{12}@erased\.invalid$'
      and (new.id, new.at, new.actor, new.what, new.outcome, new.number, new.hash, new.content)
        is not distinct from (old.id, old.at, old.actor, old.what, old.outcome, old.number, old.hash, old.content)
      and new.name = bridge.without_address(old.name, address, mark)
      and new.object is not distinct from bridge.without_address(old.object, address, mark)
      and new.origin is not distinct from bridge.without_address(old.origin, address, mark)
      and new.details = bridge.without_address(old.details, address, mark)
    then
      return new;
    end if;
  end if;
  raise exception 'the audit log is only appended to: % is refused', lower(tg_op)
    using errcode = 'insufficient_privilege';
end $$;
drop trigger keep_actions on bridge.actions;
create trigger keep_actions before insert or update or delete on bridge.actions
  for each row execute function bridge.keep_actions();

-- Appends an entry. The time, and with it the place of the id, is the database's, unless the owner itself asks.
create function bridge.append_action(id uuid, at timestamptz, actor text, name text, what text, object text, origin text,
  outcome text, details text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not bridge.owns_actions(session_user) then
    at := clock_timestamp();
  end if;
  -- Ids begin with the time: entries sort by it.
  id := (lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0') || substr(replace(id::text, '-', ''), 13))::uuid;
  insert into bridge.actions (id, at, actor, name, what, object, origin, outcome, details)
    values (append_action.id, append_action.at, append_action.actor, append_action.name, append_action.what,
      append_action.object, append_action.origin, append_action.outcome, append_action.details);
end $$;

-- Links what is not in the chain yet, at most so many entries; returns how many it has linked. One process at a time.
create function bridge.link_actions(most int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
  place bigint;
  chained bytea;
  entry record;
  linked int := 0;
begin
  if not pg_try_advisory_xact_lock(hashtext('bridge.link_actions')) then
    return 0;
  end if;
  select a.number, a.hash into place, chained from bridge.actions a where a.number is not null order by a.number desc limit 1;
  for entry in
    select a.id, sha256(convert_to(jsonb_build_array(a.name, a.object, a.origin, a.details)::text, 'UTF8')) as content,
      convert_to(jsonb_build_array(a.id, a.at, a.actor, a.what, a.outcome)::text, 'UTF8') as fixed
    from bridge.actions a where a.number is null order by a.id limit most
  loop
    linked := linked + 1;
    place := coalesce(place, 0) + 1;
    chained := sha256(coalesce(chained, ''::bytea) || entry.content || entry.fixed);
    update bridge.actions a set number = place, hash = chained, content = entry.content where a.id = entry.id;
  end loop;
  return linked;
end $$;

-- Deletes at most so many entries of more than so many days ago, and never what the owner keeps; returns how many.
create function bridge.prune_actions(nowadays timestamptz, days int, most int) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  pruned int;
begin
  if not bridge.owns_actions(session_user) then
    nowadays := clock_timestamp();
    days := greatest(days, bridge.action_days());
  end if;
  -- Ids begin with the time.
  delete from bridge.actions where id = any(array(
    select a.id from bridge.actions a
    where a.id < (lpad(to_hex(floor(extract(epoch from nowadays - make_interval(days => days)) * 1000)::bigint), 12, '0')
      || repeat('0', 20))::uuid
    order by a.id limit most for update skip locked));
  get diagnostics pruned = row_count;
  return pruned;
end $$;

-- Returns how many entries named the address; that they were changed is an entry, too.
create or replace function bridge.erase_in_actions(address text, mark text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  entries bigint;
begin
  perform set_config('sourcing.erased_address', address, true), set_config('sourcing.erased_mark', mark, true);
  update bridge.actions set name = bridge.without_address(name, address, mark),
      object = bridge.without_address(object, address, mark), origin = bridge.without_address(origin, address, mark),
      details = bridge.without_address(details, address, mark)
    where position(address in lower(name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details)) > 0
      and bridge.without_address(name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details,
        address, mark) <> name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details;
  get diagnostics entries = row_count;
  perform set_config('sourcing.erased_address', '', true), set_config('sourcing.erased_mark', '', true);
  if entries > 0 then
    perform bridge.append_action(gen_random_uuid(), clock_timestamp(), 'program', session_user::text, 'audit-log.erase', mark,
      null, 'allowed', json_build_object('entries', entries)::text);
  end if;
  return entries;
end $$;
