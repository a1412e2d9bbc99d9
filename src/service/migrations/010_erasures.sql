-- The audit log keeps that a person was erased, and no longer the person's address: the only change of an entry that is
-- allowed replaces that address by a mark, and changes nothing else.

create function service.without_address(given text, address text, mark text) returns text language sql immutable as $$
  select regexp_replace(given,
    '(?<![a-z0-9._%+-])' || regexp_replace(address, '([^a-z0-9])', '\\\1', 'g') || '(?![a-z0-9_-])(?!\.[a-z0-9])',
    mark, 'gi')
$$;

create or replace function service.keep_actions() returns trigger language plpgsql as $$
declare
  address text := current_setting('sourcing.erased_address', true);
  mark text := current_setting('sourcing.erased_mark', true);
begin
  if tg_op = 'DELETE' and old.at < now() - interval '30 days' then
    return old;
  end if;
  if tg_op = 'UPDATE' and address ~ '^[^\s@]+@[^\s@]+$' and mark ~ '^erased-[0-9a-f]{12}@erased\.invalid$'
    and (new.id, new.at, new.actor, new.what, new.outcome) = (old.id, old.at, old.actor, old.what, old.outcome)
    and new.name = service.without_address(old.name, address, mark)
    and new.object is not distinct from service.without_address(old.object, address, mark)
    and new.origin is not distinct from service.without_address(old.origin, address, mark)
    and new.details = service.without_address(old.details, address, mark)
  then
    return new;
  end if;
  raise exception 'the audit log is only appended to: % is refused', lower(tg_op)
    using errcode = 'insufficient_privilege';
end $$;

-- Returns how many entries named the address.
create function service.erase_in_actions(address text, mark text) returns bigint language plpgsql as $$
declare
  entries bigint;
begin
  perform set_config('sourcing.erased_address', address, true), set_config('sourcing.erased_mark', mark, true);
  update service.actions set name = service.without_address(name, address, mark),
      object = service.without_address(object, address, mark), origin = service.without_address(origin, address, mark),
      details = service.without_address(details, address, mark)
    where position(address in lower(name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details)) > 0
      and service.without_address(name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details,
        address, mark) <> name || ' ' || coalesce(object, '') || ' ' || coalesce(origin, '') || ' ' || details;
  get diagnostics entries = row_count;
  perform set_config('sourcing.erased_address', '', true), set_config('sourcing.erased_mark', '', true);
  return entries;
end $$;

-- A scenario whose name holds the address gets another one.
alter table service.scenario_awards drop constraint scenario_awards_event_id_scenario_fkey,
  add foreign key (event_id, scenario) references service.scenarios on delete cascade on update cascade;
